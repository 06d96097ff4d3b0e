"""What a model has seen, as the events tell it; and how a provider names its reply."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain.core import (
    Image,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    StepStarted,
    Text,
    ToolCall,
    ToolCompleted,
)
from wesichain.core.events import ContextReduced, HandedOff
from wesichain.core.internal import CallHook, Cut, Transcript, around, text_of
from wesichain.core.protocols import name_reply

HEAD = ("r", 1, 1, 0.0)
A, B, C = (Message(Role.USER, text) for text in "abc")
CALL = ToolCall("c1", "f", {})
PICTURE = Image(url="https://example.org/a.png")


def seen(*events: Any) -> list[Message]:
    transcript = Transcript()
    for event in events:
        transcript.take(event)
    return transcript.messages


STEP = StepStarted(*HEAD, (A, B))
REPLY = ModelResponded(*HEAD, LlmResponse("x", (CALL,)), 1.0)
FOLLOWS = StepStarted(*HEAD, (C,), follows=True)
TURN = Message(Role.ASSISTANT, "x", None, (CALL,))


@pytest.mark.parametrize(
    ("events", "messages"),
    [
        pytest.param((STEP, REPLY), [A, B], id="a-request"),
        pytest.param(
            (STEP, REPLY, ToolCompleted(*HEAD, "c1", "f", 5, 1.0), FOLLOWS),
            [A, B, TURN, Message(Role.TOOL, "5", "c1"), C],
            id="a-turn-that-follows",
        ),
        pytest.param(
            (STEP, REPLY, ToolCompleted(*HEAD, "c1", "f", "v", 1.0, (Text("v"), PICTURE)), FOLLOWS),
            [A, B, TURN, Message(Role.TOOL, (Text("v"), PICTURE), "c1"), C],
            id="a-result-with-a-picture",
        ),
        pytest.param((FOLLOWS,), [C], id="a-recording-that-begins-in-the-middle"),
        pytest.param((STEP, REPLY, HandedOff(*HEAD, "a", "b", "m"), StepStarted(*HEAD, (C,))), [C], id="handed"),
        pytest.param((STEP, ContextReduced(*HEAD, "v", (Cut(0, 1),)), StepStarted(*HEAD, (C,))), [B, C], id="a-cut"),
        pytest.param(
            (
                STEP,
                ContextReduced(*HEAD, "v", (Cut(0, 1, (C,)),)),
                StepStarted(*HEAD, (C,)),
                ContextReduced(*HEAD, "v", (Cut(1, 3, (A,)),)),
                StepStarted(*HEAD, (B,)),
            ),
            [C, A, B],
            id="cuts-behind-each-other",
        ),
    ],
)  # fmt: skip
def test_what_the_model_has_seen(events: Any, messages: Any) -> None:
    assert seen(*events) == messages


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (5, "5"), (True, "true"), (None, "null"), ([1.5], "[1.5]")]
)
def test_a_result_as_a_model_reads_it(value: Any, text: str) -> None:
    assert text_of(value) == text


class Hook(CallHook):
    def __init__(self) -> None:
        self.named: list[tuple[str, str]] = []

    def responded(self, *, id: str, model: str) -> None:
        self.named.append((id, model))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"id": "i", "model": "m"}, ("i", "m")),
        ('{"model": "m"}', ("", "m")),
        ({"message": {"id": "i", "model": "m"}}, ("i", "m")),
        ({"response": {"id": 5, "model": "m"}}, ("5", "m")),
        ({"model": 5}, None),
        ({"message": "m"}, None),
        ("{", None),
        ("[]", None),
        (None, None),
    ],
)
def test_how_a_provider_names_its_reply(monkeypatch: pytest.MonkeyPatch, body: Any, named: Any) -> None:
    hook: Any = Hook()  # type: ignore[abstract]  # the part that hears names
    monkeypatch.setattr(around, "hook", None)
    assert name_reply(body) is (named is not None), "also where nobody listens"
    monkeypatch.setattr(around, "hook", hook)
    assert name_reply(body) is (named is not None)
    assert hook.named == ([] if named is None else [named])
