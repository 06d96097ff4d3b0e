"""The codec: every value survives the round trip, and nothing else gets in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from tests.core import values
from wesichain.core import (
    Event,
    LlmRequest,
    LlmResponse,
    LogView,
    Message,
    ReActStep,
    Role,
    TextChunk,
    Thought,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
    Usage,
    from_json,
    to_json,
    to_plain,
)
from wesichain.errors import CodecError


@given(values.message)
def test_a_message_survives(value: Message) -> None:
    assert from_json(Message, to_json(value)) == value


@given(values.request)
def test_a_request_survives(value: LlmRequest) -> None:
    assert from_json(LlmRequest, to_json(value)) == value


@given(values.response)
def test_a_response_survives(value: LlmResponse) -> None:
    assert from_json(LlmResponse, to_json(value)) == value


@given(values.chunk)
def test_a_chunk_survives(value: TextChunk | ToolCallChunk) -> None:
    assert from_json(type(value), to_json(value)) == value


@given(values.step)
def test_a_step_survives_as_itself_and_as_a_member_of_the_union(value: ReActStep) -> None:
    assert from_json(ReActStep, to_json(value)) == value
    assert from_json(type(value), to_json(value)) == value


@given(values.event)
def test_an_event_survives_as_itself_and_as_a_member_of_the_union(value: Event) -> None:
    assert from_json(Event, to_json(value)) == value
    assert from_json(type(value), to_json(value)) == value


@given(values.json_value)
def test_plain_json_is_left_alone(value: Any) -> None:
    assert to_plain(value) == value


@given(values.event)
def test_the_same_value_has_the_same_text(value: Event) -> None:
    assert to_json(value) == to_json(from_json(Event, to_json(value)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            Message(Role.USER, "hé"), '{"role":"user","content":"hé"}', id="roles-in-lower-case-unicode-kept"
        ),
        pytest.param(Message(Role.ASSISTANT), '{"role":"assistant","content":""}', id="empty-content-stays"),
        pytest.param(
            Message(Role.TOOL, "3", tool_call_id="c1"),
            '{"role":"tool","content":"3","tool_call_id":"c1"}',
            id="a-call-id-is-kept",
        ),
        pytest.param(
            LlmRequest("m", (Message(Role.USER, "x"),)),
            '{"model":"m","messages":[{"role":"user","content":"x"}]}',
            id="no-tools-no-key",
        ),
        pytest.param(Thought("t"), '{"kind":"thought","text":"t"}', id="a-step-says-what-it-is"),
    ],
)
def test_the_form_is(value: object, text: str) -> None:
    assert to_json(value) == text


@pytest.mark.parametrize(
    ("type_", "text", "complaint"),
    [
        pytest.param(Message, "", "not JSON", id="nothing"),
        pytest.param(Message, "[1", "not JSON", id="cut"),
        pytest.param(Message, None, "not JSON text: NoneType", id="no-text-at-all"),
        pytest.param(Message, {"role": "user"}, "not JSON text: dict", id="data-for-text"),
        pytest.param(Message, "[]", "expected a Message", id="a-list-for-an-object"),
        pytest.param(Message, "{}", "'role' is missing", id="a-missing-field"),
        pytest.param(Message, '{"role":"boss"}', "role: expected one of system", id="an-unknown-role"),
        pytest.param(Message, '{"role":["user"]}', "role: expected one of", id="a-role-that-is-a-list"),
        pytest.param(Message, '{"role":"user","x":1}', "x: expected only the fields", id="an-unknown-field"),
        pytest.param(
            Message, '{"role":"user","content":5}', "content: expected text", id="a-number-for-text"
        ),
        pytest.param(Message, '{"role":"user","role":"user"}', "given twice", id="a-key-twice"),
        pytest.param(Message, '{"role":"user","content":"\\ud800"}', "surrogate", id="a-lone-surrogate"),
        pytest.param(Message, '{"role":"user","opaque":NaN}', "NaN", id="nan"),
        pytest.param(Message, '{"role":"user","opaque":1e999}', "too large", id="an-infinite-number"),
        pytest.param(Message, '{"role":"user","opaque":' + "9" * 5000 + "}", "not JSON", id="a-huge-integer"),
        pytest.param(Message, "[" * 100_000, "nests deeper", id="a-hundred-thousand-levels"),
        pytest.param(Message, '{"a":' * 300 + "1" + "}" * 300, "nests deeper", id="three-hundred-levels"),
        pytest.param(Usage, '{"input_tokens":true}', "a whole number", id="a-bool-for-a-number"),
        pytest.param(Usage, '{"input_tokens":1.5}', "a whole number", id="a-fraction-for-a-whole-number"),
        pytest.param(ReActStep, '{"kind":"dream"}', "kind", id="an-unknown-kind-of-step"),
        pytest.param(ReActStep, '{"text":"x"}', "kind", id="a-step-without-a-kind"),
        pytest.param(Thought, '{"kind":"action","text":"x"}', "kind", id="the-wrong-kind-of-step"),
        pytest.param(
            LlmRequest,
            '{"model":"m","messages":[{"role":"user"},{"role":"x"}]}',
            "messages[1].role",
            id="the-place-is-named",
        ),
        pytest.param(
            ToolSpec,
            '{"name":"f","description":"","parameters":{"type":"array"}}',
            "object schema",
            id="a-bad-schema",
        ),
        pytest.param(complex, "1", "not a type that the codec reads", id="a-foreign-type"),
    ],
)
def test_what_is_not_the_value_is_refused(type_: Any, text: str, complaint: str) -> None:
    with pytest.raises(CodecError) as caught:
        from_json(type_, text)
    assert complaint in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(object(), id="an-object"),
        pytest.param(float("nan"), id="nan"),
        pytest.param({"a": {1, 2}}, id="a-set-inside"),
        pytest.param("\ud800", id="a-lone-surrogate"),
    ],
)
def test_what_has_no_json_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        to_json(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CodecError):
        to_json(loop)


def test_a_view_of_a_log_reads_as_a_list() -> None:
    view = LogView([Message(Role.USER, "x")], 1)
    assert to_json(LlmRequest("m", view)) == to_json(LlmRequest("m", (Message(Role.USER, "x"),)))


def test_what_is_given_as_a_list_is_kept_as_a_tuple() -> None:
    call: Any = ToolCall("1", "add", {})
    role: Any = "assistant"
    message: Any = Message(role, "", tool_calls=[call])  # type: ignore[arg-type]  # as many write it
    assert message == Message(Role.ASSISTANT, "", tool_calls=(call,))
    assert message.role is Role.ASSISTANT
    response: Any = LlmResponse(tool_calls=[call])  # type: ignore[arg-type]  # likewise
    tools: Any = [ToolSpec("t", "", {"type": "object"})]
    for value in (message, response, LlmRequest("m", [message], tools)):
        assert from_json(type(value), to_json(value)) == value


@pytest.mark.parametrize("role", ["boss", None, 5])
def test_a_message_has_one_of_the_roles(role: Any) -> None:
    with pytest.raises(CodecError, match="use one of system, user, assistant, tool"):
        Message(role)


def test_values_are_immutable() -> None:
    with pytest.raises(AttributeError):
        Message(Role.USER, "x").content = "y"  # type: ignore[misc]  # the point of the test


def test_a_mapping_that_is_no_dict_is_written() -> None:
    class Frozen(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return {"type": "object"}[key]

        def __iter__(self) -> Any:
            return iter(["type"])

        def __len__(self) -> int:
            return 1

    assert json.loads(to_json(ToolSpec("f", "", Frozen())))["parameters"] == {"type": "object"}


def test_a_call_keeps_text_that_is_not_json() -> None:
    assert from_json(ToolCall, to_json(ToolCall("1", "f", "{not json"))).args == "{not json"
