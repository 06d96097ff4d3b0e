"""The misbehaving server answers in the dialect of every client, and misbehaves as told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.fire.faults import FAULTS, GAVE_UP, GOOD
from bench.fire.server import MisbehavingServer

TOOLS = [{"type": "function", "function": {"name": "add"}}]
FINAL = [*TOOLS, {"type": "function", "function": {"name": "final_answer"}}]


def ask(name: str, *, times: int = 1, content: str = "go", **request: Any) -> tuple[int, str]:
    """Status and body of the reply to the last of so many requests."""
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    server = MisbehavingServer(fault)
    response = b""
    for _ in range(times):
        server.requests += 1
        response = server.respond({"messages": [{"role": "user", "content": content}], **request})
    head, _, body = response.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    return int(head.split()[1]), body.decode()


def message(body: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return found


def test_trouble_that_comes_once_is_over_at_the_second_request() -> None:
    _, first = ask("unknown-once", tools=TOOLS)
    assert message(first)["tool_calls"][0]["function"]["name"] == "subtract"
    _, second = ask("unknown-once", times=2, tools=TOOLS)
    assert message(second) == {"role": "assistant", "content": GOOD}


def test_trouble_that_stays_goes_on() -> None:
    _, body = ask("json-always", times=50, tools=TOOLS)
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(message(body)["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize(("name", "status"), [("429-once", 429), ("500-always", 500)])
def test_a_provider_in_trouble_says_so(name: str, status: int) -> None:
    assert ask(name, tools=TOOLS)[0] == status


@pytest.mark.parametrize(
    "request_", [{"tools": TOOLS, "tool_choice": "none"}, {}], ids=["forbidden", "not offered"]
)
def test_where_no_call_is_allowed_it_makes_its_excuses(request_: dict[str, Any]) -> None:
    assert message(ask("endless", **request_)[1])["content"] == GAVE_UP


def test_a_client_with_a_tool_for_answers_is_answered_through_it() -> None:
    function = message(ask("unknown-once", times=2, tools=FINAL)[1])["tool_calls"][0]["function"]
    assert function == {"name": "final_answer", "arguments": json.dumps({"answer": GOOD})}


@pytest.mark.parametrize(
    ("times", "content", "expected"),
    [
        (1, "`[[ ## next_tool_name ## ]]`", "[[ ## next_tool_name ## ]]\nsubtract"),
        (2, "`[[ ## next_tool_name ## ]]`", "[[ ## next_tool_name ## ]]\nfinish"),
        (3, "`[[ ## answer ## ]]`", f"[[ ## answer ## ]]\n{GOOD}"),
        (
            2,
            "Respond with a JSON object: `next_tool_name`",
            '"next_tool_name": "finish", "next_tool_args": {}',
        ),
    ],
    ids=["a call", "the end of the calls", "the answer", "the end of the calls as JSON"],
)
def test_the_text_protocol_is_spoken_to_those_who_use_it(times: int, content: str, expected: str) -> None:
    assert expected in message(ask("unknown-once", times=times, content=content)[1])["content"]


def test_a_stream_ends_as_streams_do() -> None:
    _, body = ask("endless", tools=TOOLS, stream=True)
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert chunks[1]["choices"][0]["finish_reason"] == "tool_calls"
