"""The form of an answer: how it is asked for, what can be read of it, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from wesichain.agent.rules.answers import OutputForm, output_form, unfenced
from wesichain.errors import CodecError, ConfigError
from wesichain.llm import LlmTraits


class Sum(BaseModel):
    a: int
    total: int = 0


class Excuse(BaseModel):
    kind: Literal["excuse"] = "excuse"
    why: str


@dataclass
class Odd:
    why: str


def another_sum() -> Any:
    class Sum(BaseModel):
        b: int

    return Sum


Either = TypeAliasType("Either", Sum | Excuse)  # the alias of a union
Three = TypeAliasType("Three", Either | Odd)  # one inside another
PLAIN = LlmTraits()
NATIVE = LlmTraits(native_output=True)
BOTH = LlmTraits(native_output=True, output_with_tools=True)


def form(of_type: Any, traits: LlmTraits = PLAIN, **options: Any) -> OutputForm[Any]:
    return output_form(of_type, traits, **options)


@pytest.mark.parametrize(
    ("of_type", "names"),
    [
        (str, []),
        (Sum, ["final_answer"]),
        (Sum | None, ["final_answer"]),
        (Sum | Excuse, ["final_Sum", "final_Excuse"]),
        (Either, ["final_Sum", "final_Excuse"]),
        (Three, ["final_Sum", "final_Excuse", "final_Odd"]),
        (Sum | Excuse | None, ["final_Sum", "final_Excuse", "final_None"]),
        (Sum | another_sum(), ["final_Sum", "final_Sum_"]),
        (Annotated[Sum, Field()] | int, ["final_Sum", "final_int"]),
        (list[int] | dict[str, Sum], ["final_list_int", "final_dict_str_Sum"]),
        (Literal["a", "b"] | int, ["final_Literal_a_b", "final_int"]),
        (int | str, ["final_int", "final_str"]),
    ],
)
def test_each_type_of_a_union_has_a_tool_of_its_own(of_type: Any, names: list[str]) -> None:
    assert [spec.name for spec in form(of_type).final_tools] == names


@pytest.mark.parametrize(
    ("traits", "options", "way"),
    [
        (LlmTraits(), {}, "tool"),
        (NATIVE, {}, "native"),
        (NATIVE, {"has_tools": True}, "tool"),
        (BOTH, {"has_tools": True}, "native"),
        (NATIVE, {"mode": "tool"}, "tool"),
        (NATIVE, {"mode": "native", "has_tools": True}, "native"),
        (NATIVE, {"mode": "prompted"}, "prompted"),
    ],
)
def test_how_it_is_asked_for(traits: LlmTraits, options: Any, way: str) -> None:
    made = form(Sum, traits, **options)
    assert (bool(made.final_tools), made.schema is not None, bool(made.prompt)) == (
        way == "tool",
        way == "native",
        way == "prompted",
    )
    assert made.read('{"a": 1}') == Sum(a=1), "text of the declared form is an answer in every mode"
    several = form(Sum | Excuse, traits, **options)
    assert (several.schema is not None) is (options.get("mode") == "native"), "several are asked for by tools"


def test_several_answers_in_one_schema_say_which_they_are() -> None:
    schema: Any = form(Sum | Excuse, NATIVE, mode="native").schema
    assert schema["required"] == ["kind", "value"]
    assert schema["properties"]["kind"]["enum"] == ["Sum", "Excuse"]
    assert {*schema["$defs"]} == {"Sum", "Excuse"}
    assert "$defs" not in (form(int | bool, NATIVE, mode="native").schema or {})


@pytest.mark.parametrize(
    ("of_type", "options", "why"),
    [
        (Sum, {"mode": "native"}, r"^output_mode='native': the model takes no schema for its answer; use 'tool'"),
        ({"type": "object"}, {}, r"^output_type=\{\.\.\.\}: a JSON schema is no type; use a TypedDict"),
        (another_sum, {}, "^output_type='another_sum' is a function: use the type of its result; a function"),
        ([Sum, int], {}, r"^output_type=\[\.\.\.\]: for one of several types use a union, Sum \| int$"),
        (5, {}, "^output_type=5 has no JSON schema: "),
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused(of_type: Any, options: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        form(of_type, **options)


READ: list[tuple[Any, Any, Any]] = [
    (str, "a", "a"),
    (str, 5, "5"),
    (Sum, '{"a": 1}', Sum(a=1)),
    (Sum, '```json\n{"a": 1}\n```', Sum(a=1)),
    (Sum, {"a": 1, "total": 2}, Sum(a=1, total=2)),
    (int, "5", 5),
    (int, {"value": 5}, 5),
    (list[int], "[1]", [1]),
    (Sum | Excuse, '{"a": 1}', Sum(a=1)),
    (Sum | Excuse, '{"kind": "Sum", "value": {"a": 1}}', Sum(a=1)),
    (Sum | Excuse, '{"kind": "excuse", "why": "b"}', Excuse(why="b")),
    (int | str, "5", 5),
    (int | str, "five", "five"),
    (int | str, '"five"', "five"),
    (Sum | str, "5", "5"),
    (Sum | str, "true", "true"),
    (Sum | str, '{"a": 1}', Sum(a=1)),
    (dict[str, int] | int, '{"x": 1}', {"x": 1}),
]


@pytest.mark.parametrize(("of_type", "answer", "expected"), READ)
def test_what_an_answer_stands_for(of_type: Any, answer: Any, expected: Any) -> None:
    assert form(of_type).read(answer) == expected


@pytest.mark.parametrize(
    ("of_type", "answer", "why"),
    [
        (Sum, "{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (Sum, {"a": "1"}, 'the answer does not have the declared form: a: Input should be a valid integer, got "1"'),
        (
            Sum,
            {"total": 2},
            'the answer does not have the declared form: a: Field required, got {"total":2}',
        ),
        (int, "true", "the answer does not have the declared form: the answer: Input should be a valid integer, got true"),
        (
            Sum | Excuse,
            {"x": 1},
            "'Sum', 'Excuse' it is; call the tool of its own: final_Sum, final_Excuse, got {\"x\":1}",
        ),
        (Sum | Odd, {}, "'Sum', 'Odd' it is; call the tool of its own: final_Sum, final_Odd, got {}"),
        (Sum | Odd, {"a": 1, "why": "b"}, 'got {"a":1,"why":"b"}'),
        (Sum | Odd, {"a": "1"}, 'a: Input should be a valid integer, got "1"'),
        (Sum, {"a": "x" * 90}, f'declared form: a: Input should be a valid integer, got "{"x" * 79}…'),
        (Sum, {"a": "x" * 78}, f'declared form: a: Input should be a valid integer, got "{"x" * 78}"'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_answer(of_type: Any, answer: Any, why: str) -> None:
    with pytest.raises(CodecError) as wrong:
        form(of_type).read(answer)
    assert str(wrong.value).endswith(why)


def test_in_words_an_answer_is_told_how_to_say_which_it_is() -> None:
    with pytest.raises(CodecError, match=r'give \{"kind": one of these, "value": the answer\}, got'):
        form(Sum | Excuse, mode="prompted").read({"x": 1})


def test_ten_faults_are_told_and_no_more() -> None:
    with pytest.raises(CodecError) as wrong:
        form(list[int]).read(["x"] * 12)
    assert str(wrong.value).count("valid integer") == 10


@pytest.mark.parametrize(
    ("of_type", "output", "text"),
    [
        (str, "a", "a"),
        (Sum, Sum(a=1), '{"a":1,"total":0}'),
        (int, 5, "5"),
        (Sum | Excuse, Sum(a=1), '{"a":1,"total":0}'),
        (Sum | another_sum(), Sum(a=1), '{"a":1,"total":0}'),
        (Sum | dict[str, int], Sum(a=1), '{"kind":"Sum","value":{"a":1,"total":0}}'),
        (int | str, "five", '{"kind":"str","value":"five"}'),
        (int | str, 5, "5"),
    ],
)
def test_an_answer_as_text_is_read_as_the_same(of_type: Any, output: Any, text: str) -> None:
    made = form(of_type)
    assert made.write(output) == text
    assert made.read(text) == output


@pytest.mark.parametrize(
    ("of_type", "output", "why"),
    [
        (str, 5, "^5 is no text$"),
        (int, "x", "^'x' does not have the declared type: "),
        (int, "x" * 300, f"^'{'x' * 199} does not have"),
    ],
)
def test_what_is_not_of_the_type_is_not_written(of_type: Any, output: Any, why: str) -> None:
    with pytest.raises(CodecError, match=why):
        form(of_type).write(output)


@pytest.mark.parametrize(
    ("of_type", "tool", "args", "text"),
    [
        (Sum, "final_answer", {"a": 1}, '{"a":1}'),
        (int, "final_answer", '{"value": 5}', '{"value": 5}'),
        (int | Sum, "final_int", {"value": 5}, "5"),
        (int | str, "final_str", {"value": "5"}, '{"kind":"str","value":"5"}'),
    ],
)
def test_the_arguments_of_a_final_tool_are_an_answer(of_type: Any, tool: str, args: Any, text: str) -> None:
    made = form(of_type)
    assert made.text_of_call(tool, args) == text
    assert made.read(text) == made.read_call(tool, args)


@pytest.mark.parametrize(
    ("of_type", "plain", "tool", "expected"),
    [
        (Sum, {"a": 1}, None, {"a": 1}),
        (Sum, [1], None, [1]),
        (int, {"value": 5}, "final_answer", 5),
        (int, {}, "final_answer", None),
        (int, {"other": 5}, "final_answer", {"other": 5}),
        (int | Sum, {"value": 5}, "final_int", 5),
        (int | Sum, {"value": 5}, "final_Sum", {"value": 5}),
        (int | Sum, {"kind": "int", "value": 5}, None, 5),
        (int | Sum, {"kind": "int"}, None, None),
        (int | Sum, {"a": 5}, None, {"a": 5}),
    ],
)
def test_what_can_be_read_so_far(of_type: Any, plain: Any, tool: str | None, expected: Any) -> None:
    assert form(of_type).partial(plain, tool) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" a ", "a"), ("```\na\n```", "a"), ("```json a```", "a"), ("``````", ""), ("`````", "`````"), ("```a", "```a")],
)  # fmt: skip
def test_a_fence_is_taken_off(text: str, expected: str) -> None:
    assert unfenced(text) == expected
