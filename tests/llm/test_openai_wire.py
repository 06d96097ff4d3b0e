"""Chat completions: requests out, and what a provider wants to see again, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.chat_kit import call, read, streamed
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    ToolCall,
    ToolSpec,
    from_json,
    to_json,
)
from wesichain.errors import LlmRejectedError
from wesichain.llm.calls import ToolNames
from wesichain.llm.openai.wire import to_wire

EMPTY = {"type": "object", "properties": {}}
READ = ToolSpec("files.read", "Read a file.", EMPTY)


def wire(*messages: Message, tools: tuple[ToolSpec, ...] = (), **settings: Any) -> dict[str, Any]:
    request = LlmRequest(
        "ignored", messages, tools, settings.pop("output_schema", None), settings.pop("stop", ())
    )
    names = ToolNames.of(request)
    body = to_wire(request, names, model="m", **{"options": {}, "stream": False, **settings})
    plain: dict[str, Any] = json.loads(to_json(body))
    return plain


# --- requests ------------------------------------------------------------------------------------


def test_an_output_schema_is_a_response_format() -> None:
    body = wire(Message(Role.USER, "hi"), output_schema=EMPTY)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": EMPTY},
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {}, {"stream": True, "stream_options": {"include_usage": True}}, id="usage-is-asked-for"
        ),
        pytest.param({"stream_options": None}, {"stream": True}, id="none-takes-a-field-out"),
        pytest.param(
            {"temperature": 0, "stream_options": {"x": 1}},
            {"stream": True, "temperature": 0, "stream_options": {"include_usage": True, "x": 1}},
            id="an-object-is-merged",
        ),
    ],
)
def test_options_are_fields_of_the_request(options: dict[str, Any], expected: dict[str, Any]) -> None:
    body = wire(options=options, stream=True)
    assert {key: body[key] for key in body if key not in ("model", "messages")} == expected


@pytest.mark.parametrize("args", ["not json", None, 5, ["a"], "{"])
def test_arguments_that_are_no_object_go_back_as_one(args: Any) -> None:
    message = Message(Role.ASSISTANT, tool_calls=(ToolCall("1", "f", args),))
    (sent,) = wire(message)["messages"][0]["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == {"malformed_arguments": args}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Message(Role.ASSISTANT, tool_calls=(ToolCall("", "f", {}),)), id="a-call-without-an-id"),
        pytest.param(Message(Role.TOOL, "x", tool_call_id=""), id="a-result-with-an-empty-id"),
        pytest.param(Message(Role.TOOL, "x"), id="a-result-without-an-id"),
    ],
)
def test_a_message_without_an_id_is_never_sent(message: Message) -> None:
    with pytest.raises(LlmRejectedError, match=r"message 1 .* without an id"):
        wire(Message(Role.USER, "hi"), message)


NAMES = st.lists(
    st.text(alphabet="ab._-/ é", max_size=70) | st.sampled_from(["a_b", "a.b", "a_b_2"]), max_size=12
)


@given(names=NAMES)
def test_names_on_the_wire_are_legal_distinct_and_come_back(names: list[str]) -> None:
    mapping = ToolNames(names)
    sent = [mapping.to_wire(name) for name in dict.fromkeys(names)]
    assert len(set(sent)) == len(sent)
    for name, wire_name in zip(dict.fromkeys(names), sent, strict=True):
        assert 1 <= len(wire_name) <= 64
        assert set(wire_name) <= set("ab_-" + "0123456789")
        assert mapping.from_wire(wire_name) == name


def test_a_legal_name_is_never_changed_by_an_illegal_one() -> None:
    mapping = ToolNames(["a.b", "a/b", "a_b"])
    assert [mapping.to_wire(name) for name in ("a_b", "a.b", "a/b")] == ["a_b", "a_b_2", "a_b_3"]
    assert mapping.from_wire("never_offered") == "never_offered"


# --- what a provider wants to see again -----------------------------------------------------------


def sent_back(response: LlmResponse, **changes: Any) -> dict[str, Any]:
    message = Message(
        Role.ASSISTANT, response.content, tool_calls=response.tool_calls, opaque=response.opaque
    )
    (body,) = wire(from_json(Message, to_json(message)))["messages"]
    assert isinstance(body, dict)
    return body


DETAILS = [{"type": "reasoning.text", "text": "hm", "index": 0, "signature": "s"}]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param({"reasoning_content": "hm"}, {"reasoning_content": "hm"}, id="reasoning-content"),
        pytest.param({"reasoning_details": DETAILS}, {"reasoning_details": DETAILS}, id="reasoning-details"),
        pytest.param({"extra_content": {"google": 1}}, {"extra_content": {"google": 1}}, id="extra-content"),
        pytest.param({"reasoning": "hm"}, {}, id="plain-reasoning-is-not-asked-back"),
    ],
)
def test_a_turn_with_calls_goes_back_with_its_reasoning(
    extra: dict[str, Any], expected: dict[str, Any]
) -> None:
    made = [call(id="1", name="f", arguments="{}", extra_content={"google": {"thought_signature": "x"}})]
    body = sent_back(read({"content": "", "tool_calls": made, **extra}))
    assert body["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "x"}}
    assert {key: body[key] for key in body if key not in ("role", "content", "tool_calls")} == expected


def test_a_finished_turn_goes_back_without_its_reasoning() -> None:
    body = sent_back(read({"content": "4", "reasoning_content": "hm"}))
    assert body == {"role": "assistant", "content": "4"}


def test_a_refusal_goes_back_as_a_refusal() -> None:
    body = sent_back(read({"content": None, "refusal": "No."}))
    assert body == {"role": "assistant", "content": "", "refusal": "No."}


def test_reasoning_details_in_pieces_are_joined() -> None:
    first, rest = (
        {"type": "t", "index": 0, "text": "h"},
        {"type": "t", "index": 0, "text": "m", "signature": "s"},
    )
    _, response = streamed({"reasoning_details": [first]}, {"reasoning_details": [rest]})
    joined = [{"type": "t", "index": 0, "text": "hm", "signature": "s"}]
    assert response.opaque == {"openai": {"message": {"reasoning_details": joined}}}


@pytest.mark.parametrize(
    "opaque", [{"anthropic": []}, {"openai": 7}, "x", {"openai": {"calls": 1, "message": 2}}]
)
def test_what_another_provider_signed_is_not_sent(opaque: Any) -> None:
    message = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("1", "f", {}),), opaque=opaque)
    assert wire(message)["messages"][0].keys() == {"role", "content", "tool_calls"}
