"""Grounding: an id that a model writes stands in the conversation, or it cannot be written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from tests.draws import sampled
from tests.llm.local.gbnf import Gbnf
from wesichain import Agent, Budget
from wesichain.core import LlmRequest, Message, Role, ToolCall, ToolSpec
from wesichain.core.internal import dump_json, parse_json
from wesichain.errors import ConfigError
from wesichain.llm.local import LocalLlm
from wesichain.llm.local.grammar import reply_grammar
from wesichain.llm.local.grounding import values_in
from wesichain.tools import Id, ToolSet

ID = {"type": "string", "format": "id"}


def user(text: str) -> Message:
    return Message(Role.USER, text)


def result(value: object) -> Message:
    return Message(Role.TOOL, dump_json(value), tool_call_id="1")


def spec(name: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> ToolSpec:
    properties = {**required, **(optional or {})}
    return ToolSpec(name, "", {"type": "object", "properties": properties, "required": [*required]})


def grammar(messages: list[Message], *tools: ToolSpec) -> Gbnf:
    return Gbnf.of(reply_grammar(tools, None, values=values_in(messages)))


def call(name: str, args: dict[str, Any]) -> str:
    inside = ", ".join(f"{dump_json(key)}: {dump_json(value)}" for key, value in args.items())
    return f'{{"tool": "{name}", "args": {{{inside}}}}}'


@pytest.mark.parametrize(
    ("message", "there", "absent"),
    [
        pytest.param(user("Cancel order O-17."), ["O-17", "Cancel"], ["O-1", "O-18", ""], id="a-word"),
        pytest.param(user("For (C-1042), please!"), ["C-1042", "please"], ["(C-1042)"], id="in-brackets"),
        pytest.param(
            user("id=C-17, #99 and a/b"), ["C-17", "99", "#99", "a", "b", "a/b"], ["c-17"], id="parts"
        ),
        pytest.param(user('Open "Big Red Book" now'), ["Big Red Book", "Big"], ["Big Red"], id="in-quotes"),
        pytest.param(user("Ann's order"), ["Ann"], ["Ann's"], id="possessive"),
        pytest.param(
            result({"id": "x9", "n": 12}), ["x9", "12"], ["id", "n"], id="values-of-json-not-its-keys"
        ),
        pytest.param(result({"O-17": {"sum": 1.5}}), ["O-17"], ["sum", "1.5", "1"], id="a-key-with-a-digit"),
        pytest.param(result([["a b", True, None]]), ["a b", "a", "b"], ["true", "null"], id="nested"),
        pytest.param(Message(Role.TOOL, '{"id": "C-17", "na'), ["C-17"], [], id="json-that-was-cut"),
        pytest.param(Message(Role.SYSTEM, "You serve C-5."), ["C-5"], [], id="instructions"),
        pytest.param(Message(Role.ASSISTANT, "Your order is O-9."), ["O-9"], [], id="an-earlier-answer"),
        pytest.param(
            Message(Role.ASSISTANT, "Perhaps O-8?", tool_calls=(ToolCall("1", "x", {"a": "O-7"}),)),
            [],
            ["O-8", "O-7", "Perhaps"],
            id="not-what-the-model-wrote-itself",
        ),
        pytest.param(user("a" * 65 + " b\x00c"), [], ["a" * 65, "b\x00c"], id="not-what-is-no-id"),
    ],
)
def test_values_are_those_that_stand_there(message: Message, there: list[str], absent: list[str]) -> None:
    values = values_in([message]).texts
    assert [text for text in there if text not in values] == []
    assert [text for text in absent if text in values] == []


def test_an_id_is_one_of_them_and_nothing_else() -> None:
    allowed = grammar([user("Cancel O-17 and O-171 of Ann.")], spec("cancel", {"order": ID}))
    assert allowed.matches(call("cancel", {"order": "O-17"}))
    assert allowed.matches(call("cancel", {"order": "O-171"}))
    for wrong in ("O-1", "O-1717", "O-18", "", "order"):
        assert not allowed.matches(call("cancel", {"order": wrong}))
    assert allowed.matches('{"answer": "O-99"}')


def test_whole_numbers_alike() -> None:
    number = {"type": "integer", "format": "id"}
    allowed = grammar([user("Orders 17 and 171, 1.5 kg")], spec("cancel", {"order": number}))
    assert allowed.matches('{"tool": "cancel", "args": {"order": 17}}')
    assert allowed.matches('{"tool": "cancel", "args": {"order": 171}}')
    for wrong in ("1", "1717", '"17"', "5"):
        assert not allowed.matches(f'{{"tool": "cancel", "args": {{"order": {wrong}}}}}')


def test_a_tool_without_a_possible_id_cannot_be_called_yet() -> None:
    order = {**ID, "pattern": r"^O-\d+$"}
    tools = (spec("find", {"name": {"type": "string"}}), spec("cancel", {"order": order}))
    before = grammar([user("Cancel the order of Ann.")], *tools)
    assert before.matches(call("find", {"name": "anything"}))
    assert not before.matches(call("cancel", {"order": "Ann"}))
    after = grammar([user("Cancel the order of Ann."), result([{"order": "O-17"}])], *tools)
    assert after.matches(call("cancel", {"order": "O-17"}))
    assert not after.matches(call("cancel", {"order": "Ann"}))


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"anyOf": [ID, ID]}, id="a-choice-of-ids"),
        pytest.param({"type": "array", "items": ID, "minItems": 1}, id="a-list-of-one-or-more"),
        pytest.param({"allOf": [ID]}, id="in-all-of"),
    ],
)
def test_what_needs_an_id_cannot_be_called_without_one(schema: dict[str, Any]) -> None:
    tool = spec("look", {"value": schema})
    assert not grammar([], tool).matches('{"tool": "look", "args": {"value": ["x"]}}')
    value = '["O-1"]' if "items" in schema else '"O-1"'
    assert grammar([user("O-1")], tool).matches(f'{{"tool": "look", "args": {{"value": {value}}}}}')


def test_a_pattern_of_another_dialect_is_left_to_the_runtime() -> None:
    values = values_in([user("O-1 and P-2")])
    assert values.fitting({"pattern": "(?<"}) == [*values.texts]
    assert values.fitting({"pattern": "^O", "minLength": 3, "maxLength": 3}) == ["O-1"]
    assert "O-1" not in values.fitting({"minLength": 4})
    assert "and" not in values.fitting({"maxLength": 2})


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param({"anyOf": [ID, {"type": "null"}]}, "null", '"x"', id="or-null"),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"type": "null"}], "format": "id"},
            "null",
            '"x"',
            id="the-mark-on-the-choice",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "format": "id"},
            "[]",
            '["x"]',
            id="the-mark-on-the-list",
        ),
        pytest.param({"type": ["string", "null"], "format": "id"}, "null", '"x"', id="two-types"),
        pytest.param({"type": "array", "items": ID}, "[]", '["x"]', id="a-list"),
        pytest.param({"type": "object", "additionalProperties": ID}, "{}", '{"a": "x"}', id="a-mapping"),
        pytest.param(
            {"type": "object", "properties": {"a": ID}, "required": []}, "{}", '{"a": "x"}', id="optional"
        ),
    ],
)
def test_what_can_do_without_an_id_does(schema: dict[str, Any], good: str, bad: str) -> None:
    allowed = grammar([], spec("look", {"value": schema}))
    assert allowed.matches(f'{{"tool": "look", "args": {{"value": {good}}}}}')
    assert not allowed.matches(f'{{"tool": "look", "args": {{"value": {bad}}}}}')


def test_a_recursive_schema_of_ids() -> None:
    node = {
        "type": "object",
        "properties": {"id": ID, "next": {"$ref": "#/$defs/Node"}},
        "required": ["id"],
    }
    schema = {"type": "object", "properties": {"top": {"$ref": "#/$defs/Node"}}, "required": ["top"]}
    tool = ToolSpec("look", "", {**schema, "$defs": {"Node": node}})
    allowed = grammar([user("x1 x2")], tool)
    assert allowed.matches('{"tool": "look", "args": {"top": {"id": "x1", "next": {"id": "x2"}}}}')
    assert not allowed.matches('{"tool": "look", "args": {"top": {"id": "x1", "next": {"id": "x3"}}}}')
    nothing = grammar([], tool)
    assert "look" not in nothing.sample(random.Random(0))
    assert nothing.matches('{"answer": "-"}')


words = st.text(st.characters(codec="utf-8"), max_size=30)
contents = st.one_of(words, st.recursive(st.one_of(words, st.integers(), st.none()), st.lists).map(dump_json))
roles = st.sampled_from([Role.USER, Role.TOOL, Role.SYSTEM, Role.ASSISTANT])


@given(st.lists(st.builds(Message, roles, contents), max_size=5), st.integers())
def test_law_whatever_is_said_an_id_that_can_be_written_stands_there(
    messages: list[Message], seed: int
) -> None:
    chance = random.Random(seed)
    text = grammar(messages, spec("look", {"value": ID})).sample(chance)
    reply = parse_json(text)
    if "tool" in reply:
        value = reply["args"]["value"]
        said = [message.content for message in messages]
        assert any(value in one or dump_json(value)[1:-1] in one for one in said)


def test_many_values_make_a_grammar_that_is_not_large() -> None:
    ids = [f"order-{number:06}" for number in range(20_000)]
    text = reply_grammar([spec("look", {"value": ID})], None, values=values_in([result(ids)]))
    assert len(text) < 200_000
    assert Gbnf.of(text).matches(call("look", {"value": ids[-1]}))


def test_without_a_grammar_it_cannot_be_kept() -> None:
    with pytest.raises(ConfigError, match="choose one"):
        LocalLlm("smollm2-135m", grounded=True, constrain=False)


# --- with a model that is loaded ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(shallow: Path) -> Iterator[Path]:
    """The file of a model that stays loaded: whoever asks for it the same way shares what was read."""
    llm = LocalLlm(shallow, threads=1, context=1024, max_tokens=1)
    asyncio.run(llm.complete_text("one", stop=[]))
    yield shallow
    llm.close()


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sampled([1, 2, 3], 1))
async def test_however_wild_the_model_an_id_stands_in_the_question(loaded: Path, seed: int) -> None:
    look = spec("cancel", {"order": ID})
    request = LlmRequest("", (user("Cancel order O-17 or O-23 of Ann."),), (look,))
    async with LocalLlm(
        loaded, threads=1, context=1024, max_tokens=40, temperature=5.0, seed=seed, grounded=True
    ) as llm:
        reply = await llm.complete(request)
    for made in reply.tool_calls:
        assert isinstance(made.args, dict)
        assert made.args["order"] in ("Cancel", "order", "O-17", "or", "O-23", "of", "Ann")


@pytest.mark.sampled
async def test_an_agent_looks_up_what_it_cannot_make_up(loaded: Path) -> None:
    cancelled: list[str] = []

    def find_order(customer: str) -> str:
        """Find the order of a customer."""
        return "O-17"

    def cancel_order(order: Annotated[str, Id, Field(pattern=r"^O-\d+$")]) -> str:
        """Cancel an order."""
        cancelled.append(order)
        return "done"

    tools = ToolSet().register(find_order).register(cancel_order).build()
    for wild in sampled(range(3), 1):
        async with LocalLlm(
            loaded, threads=1, context=1024, max_tokens=40, temperature=2.0, seed=wild, grounded=True
        ) as llm:
            agent = Agent(llm, tools=tools, budget=Budget(steps=3))
            await agent.outcome("Cancel the order of Ann.")
    assert set(cancelled) <= {"O-17"}


def test_a_value_has_its_newest_place() -> None:
    assert values_in([user("one two"), user("one")]).texts == ("two", "one")
