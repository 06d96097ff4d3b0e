"""The codec: every value survives the round trip, and nothing else gets in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, make_dataclass
from threading import Barrier
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import values
from tests.draws import draws
from wesichain.core import (
    Event,
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    Part,
    ReActStep,
    Role,
    RunCompleted,
    StepStarted,
    TextChunk,
    Thought,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.internal import (
    Decision,
    LogView,
    Spent,
    Value,
    find_json_object,
    json_changes,
    parse_json,
    same,
    to_lines,
    to_plain,
)
from wesichain.errors import CodecError


def empty_of(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def may_be_left_out(value: Any, field: Field[Any]) -> bool:
    omits = isinstance(value, Value) and value.__struct_config__.omit_defaults
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return omits and has_default and field.name not in value.__always__


def reference(value: Any) -> Any:
    """The format, said in a few lines: `kind`, what is always there, then what is not empty."""
    if hasattr(value, "to_plain"):
        return reference(value.to_plain())
    if is_dataclass(value):
        written = [field for field in fields(value) if field.name not in getattr(value, "__unwritten__", ())]
        own = sorted(written, key=lambda field: may_be_left_out(value, field))
        kept = [f for f in own if not may_be_left_out(value, f) or getattr(value, f.name) != empty_of(f)]
        kind = getattr(value, "kind", None)
        head = {"kind": kind} if isinstance(kind, str) else {}
        return head | {field.name: reference(getattr(value, field.name)) for field in kept}
    if isinstance(value, Mapping):
        return {key: reference(item) for key, item in value.items()}
    return [reference(item) for item in value] if isinstance(value, list | tuple | LogView) else value


VALUES: list[Any] = [
    pytest.param(type_, strategy, id=name)
    for name, type_, strategy in [
        ("message", Message, values.message),
        ("request", LlmRequest, values.request),
        ("response", LlmResponse, values.response),
        ("step", ReActStep, values.step),
        ("decision", Decision, values.decision),
        ("part", Part, values.part),
        *((kind.kind, Event, values.of(kind)) for kind in get_args(Event)),
        *((kind.__name__, kind, values.of(kind)) for kind in (Usage, Spent, TextChunk, ToolCallChunk)),
    ]
]


@pytest.mark.parametrize(("type_", "strategy"), VALUES)
@draws(4)
@given(data=st.data())
def test_a_value_is_written_by_the_format_and_read_back_as_it_was(
    type_: Any, strategy: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(strategy)
    text = to_json(value)
    for written in (text.encode(), *to_lines((value, value))):
        assert json.dumps(json.loads(written)) == json.dumps(reference(value))  # the order of the fields, too
    assert from_json(type_, text) == value == from_json(type(value), text)
    assert to_json(from_json(type_, text)) == text
    assert json.loads(to_json({"in": [value]}))["in"] == [json.loads(text)]


@given(values.json_value)
def test_plain_json_is_left_alone(value: Any) -> None:
    assert to_plain(value) == value
    assert to_json({"b": value, "a": 1}).startswith('{"b":'), "the order of keys is kept"


@pytest.mark.parametrize(
    ("type_", "text", "complaint"),
    [
        pytest.param(Message, "", "not JSON", id="nothing"),
        pytest.param(Message, "[1", "not JSON", id="cut"),
        pytest.param(Message, None, "not JSON text: NoneType; pass str or bytes", id="no-text-at-all"),
        pytest.param(Message, {"role": "user"}, "not JSON text: dict; pass str or bytes", id="data-for-text"),
        pytest.param(Message, "[]", "the value: expected a Message, got list '[]'", id="a-list-for-an-object"),
        pytest.param(Message, "{}", "Message: the field 'role' is missing", id="a-missing-field"),
        pytest.param(Message, '{"role":"boss"}', "role: expected one of system, user, assistant, tool, got str 'boss'", id="an-unknown-role"),
        pytest.param(
            Message,
            '{"role":["user"]}',
            "role: expected one of system, user, assistant, tool, got list \"['user']\"",
            id="a-role-that-is-a-list",
        ),
        pytest.param(Message, '{"role":"user","x":1}', "x: expected only the fields of its kind, got int '1'", id="an-unknown-field"),
        pytest.param(Message, '{"role":"user","content":5}', "content: expected text, got int '5'", id="a-number-for-text"),
        pytest.param(Message, '{"role":"user","role":"user"}', "not JSON: the key 'role' is given twice", id="a-key-twice"),
        pytest.param(
            Message,
            '{"role":"user","content":"\\ud800"}',
            "the text holds a lone surrogate, which is not a character",
            id="a-lone-surrogate",
        ),
        pytest.param(Message, '{"role":"user","opaque":NaN}', "not JSON: NaN is not a JSON number", id="nan"),
        pytest.param(Message, '{"role":"user","opaque":1e999}', "not JSON: the number 1e999 is too large", id="an-infinite-number"),
        pytest.param(Message, '{"role":"user","opaque":' + "9" * 5000 + "}", "not JSON", id="a-huge-integer"),
        pytest.param(Message, "[" * 100_000, "the JSON nests deeper than 200 levels", id="a-hundred-thousand-levels"),
        pytest.param(Message, '{"a":' * 300 + "1" + "}" * 300, "the JSON nests deeper than 200 levels", id="three-hundred-levels"),
        pytest.param(Usage, '{"input_tokens":true}', "input_tokens: expected a whole number, got bool 'True'", id="a-bool-for-a-number"),
        pytest.param(Usage, '{"input_tokens":1.5}', "input_tokens: expected a whole number, got float '1.5'", id="a-fraction-for-a-whole-number"),
        pytest.param(
            ReActStep,
            '{"kind":"dream"}',
            "the value: expected an object whose 'kind' is one of thought, action, observation, final_answer, error, got dict \"{'kind': 'dream'}\"",
            id="an-unknown-kind-of-step",
        ),
        pytest.param(
            ReActStep,
            '{"text":"x"}',
            "the value: expected an object with its 'kind', got dict \"{'text': 'x'}\"",
            id="a-step-without-a-kind",
        ),
        pytest.param(Thought, '{"kind":"action","text":"x"}', "kind: expected one of thought, got str 'action'", id="the-wrong-kind-of-step"),
        pytest.param(
            LlmRequest,
            '{"model":"m","messages":[{"role":"user"},{"role":"x"}]}',
            "messages[1].role: expected one of system, user, assistant, tool, got str 'x'",
            id="the-place-is-named",
        ),
        pytest.param(
            ToolSpec,
            '{"name":"f","description":"","parameters":{"type":"array"}}',
            "tool 'f': the root of its schema has type 'array'; arguments are named, so make it an object schema ({'type': 'object', 'properties': ...})",
            id="a-bad-schema",
        ),
        pytest.param(Image, '{"kind":"image","data":5}', "Image: image.data: expected bytes as base64", id="a-part-that-is-none"),
        pytest.param(Image, "5", "Image: expected a Image, got int '5'", id="a-number-for-a-part"),
        pytest.param(Thought, "null", "the value: expected a Thought, got null", id="nothing-for-a-step"),
        pytest.param(
            complex | Message,
            "{}",
            "<class 'complex'> | <class 'wesichain.core.messages.Message'> is not a union that the codec reads",
            id="a-foreign-union",
        ),
        pytest.param(complex, "1", "<class 'complex'> is not a type that the codec reads", id="a-foreign-type"),
    ],
)  # fmt: skip
def test_what_is_not_the_value_is_refused(type_: Any, text: str, complaint: str) -> None:
    with pytest.raises(CodecError) as caught:
        from_json(type_, text)
    assert str(caught.value).startswith(complaint)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        pytest.param(object(), "object is not a value of this project and has no JSON", id="an-object"),
        pytest.param(float("nan"), "the value has no JSON: ", id="nan"),
        pytest.param({"a": {1, 2}}, "set is not a value of this project", id="a-set-inside"),
        pytest.param("\ud800", "the text holds a lone surrogate", id="a-lone-surrogate"),
        pytest.param({(1, 2): "a"}, "the value has no JSON: keys must be str", id="a-key-that-is-a-tuple"),
    ],
)
def test_what_has_no_json_is_refused(value: object, why: str) -> None:
    with pytest.raises(CodecError) as caught:
        to_json(value)
    assert str(caught.value).startswith(why)


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


# --- what a serialiser could get wrong ------------------------------------------------------------


@dataclass
class Tree:
    """A class of the standard library's, inside itself."""

    name: str
    branches: list[Tree] = field(default_factory=list)
    parent: Tree | None = None
    about: Thought | None = None


@dataclass
class Chain:
    """A class inside itself, with nothing in it that has a form of its own."""

    name: str
    behind: tuple[Chain, ...]


def test_a_class_that_refers_to_itself_is_written() -> None:
    chain = Chain("a", (Chain("b", ()),))
    assert json.loads(to_json(chain)) == reference(chain)
    assert to_lines([chain]) == [to_json(chain).encode()]
    tree = Tree("a", [Tree("b", about=Thought("t"))], Tree("c"))
    assert json.loads(to_json(tree)) == reference(tree)
    assert json.loads(to_json(tree))["branches"][0]["about"] == {"kind": "thought", "text": "t"}


def test_threads_that_write_the_first_value_of_a_class_write_it_alike() -> None:
    for _ in range(20):

        class Leaf(Value, omit_defaults=True):
            kind: ClassVar[str] = "leaf"
            text: str = ""

        Branch = make_dataclass("Branch", [("leaf", Leaf | None), ("leaves", tuple[Leaf, ...])])
        Trunk = make_dataclass("Trunk", [("branch", Branch), ("leaf", Leaf | None)])
        trunk = Trunk(Branch(Leaf("x"), (Leaf(),)), Leaf())
        ready = Barrier(8)
        with ThreadPoolExecutor(8) as threads:
            texts = threads.map(lambda _: (ready.wait(), to_json(trunk))[1], range(8))  # noqa: B023  # this round's
        assert set(texts) == {json.dumps(reference(trunk), separators=(",", ":"))}


def test_a_list_in_place_of_a_tuple_is_written_alike() -> None:
    message = Message(Role.USER, ["x"], opaque={"a": 1})  # type: ignore[arg-type]  # as many write it
    given: Any = [message]
    listed, right = StepStarted("r", 1, 1, 0.0, given), StepStarted("r", 1, 1, 0.0, (message,))
    assert to_json(listed) == to_json(right)
    assert to_lines([listed]) == to_lines([right])


@pytest.mark.parametrize(
    "value", [{1, 2}, [b"x"], {"a": object()}, {(1, 2): 3}, {"a": "\ud800"}, [10**5000], [[float("inf")]]]
)
def test_data_that_json_lacks_is_refused_inside_a_value(value: Any) -> None:
    with pytest.raises(CodecError):
        to_json(RunCompleted("r", 1, 1, 0.0, value, Usage()))


def test_a_value_among_the_data_of_another_is_written_by_its_own_rules() -> None:
    output: Any = {"said": Message(Role.USER, "x"), 5: [Thought("t")]}
    written = json.loads(to_json(RunCompleted("r", 1, 1, 0.0, output, Usage())))["output"]
    assert written == {"said": {"role": "user", "content": "x"}, "5": [{"kind": "thought", "text": "t"}]}


@pytest.mark.parametrize(
    ("one", "two", "changes"),
    [
        pytest.param({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}, [], id="same"),
        pytest.param(1, True, [("", 1, True)], id="a-number-is-no-flag"),
        pytest.param([1], [1.0], [("[0]", 1, 1.0)], id="a-whole-number-is-no-fraction"),
        pytest.param({"a": 1}, {"b": 1}, [("a", 1, None), ("b", None, 1)], id="other-keys"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [("a[1]", None, 2)], id="a-longer-list"),
        pytest.param({"a": {"b": 1}}, {"a": [1]}, [("a", {"b": 1}, [1])], id="another-kind"),
    ],
)
def test_two_json_values_are_compared_strictly(one: Any, two: Any, changes: list[Any]) -> None:
    assert list(json_changes(one, two)) == changes
    assert same(one, two) == (not changes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param('{"a": {"b": 1}}', {"a": {"b": 1}}, id="alone"),
        pytest.param('Here it is:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}, id="with-text-around-it"),
        pytest.param("{}", {}, id="empty"),
        pytest.param("nothing", None, id="none"),
        pytest.param("5}", None, id="only-an-end"),
        pytest.param("} or {", None, id="the-end-first"),
        pytest.param("{what I mean is}", None, id="no-json"),
        pytest.param('{"a": 1} or {"a": 2}', None, id="two"),
        pytest.param("[1, 2]", None, id="an-array"),
    ],
)
def test_the_json_object_in_a_reply(text: str, found: Any) -> None:
    assert find_json_object(text) == found


@pytest.mark.parametrize("innermost", ["", "1", '"a"'])
def test_two_hundred_levels_are_read_and_one_more_is_not(innermost: str) -> None:
    assert parse_json("[" * 200 + innermost + "]" * 200)
    with pytest.raises(CodecError, match="nests deeper than 200"):
        parse_json("[" * 201 + innermost + "]" * 201)
