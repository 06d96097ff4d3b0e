"""The stub model ends well only for runs that really worked."""

from __future__ import annotations

import asyncio

import pytest
from bench.peers.script import Answer, Call, Gate, Script


@pytest.mark.parametrize(
    ("script", "result", "expected"),
    [
        pytest.param(Script(0), None, "the sum is 0", id="without hops it answers at once"),
        pytest.param(Script(2), None, {"a": 0, "b": 1}, id="it begins with the first addition"),
        pytest.param(Script(2), "1", {"a": 1, "b": 1}, id="it goes on from the last result"),
        pytest.param(Script(2), "2", "the sum is 2", id="it answers when the count is reached"),
        pytest.param(Script(1, malformed=True), None, {"a": "zero", "b": 1}, id="it errs first when told to"),
        pytest.param(
            Script(1, malformed=True), "no!", {"a": 0, "b": 1}, id="it mends its call after an error"
        ),
    ],
)
def test_a_reply_follows_from_the_last_result(script: Script, result: str | None, expected: object) -> None:
    match script.decide(result):
        case Call(args=args):
            assert args == expected
        case Answer(text=text):
            assert text == expected


async def test_the_gate_opens_when_all_runs_are_there() -> None:
    gate = Gate(3)
    script = Script(1, gate=gate)
    first, second = (asyncio.create_task(script.next("1")) for _ in range(2))
    await asyncio.sleep(0.01)
    assert not first.done()
    assert not second.done()
    await script.next("1")
    assert await first == await second == Answer("the sum is 1")
    assert gate.resident > 0
