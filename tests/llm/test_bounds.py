"""Limits of texts, names and numbers, each tried at its bound and one beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.llm.local.gbnf import Gbnf
from wesichain.core import Message, ModelSettings, Role
from wesichain.errors import CodecError, ConfigError
from wesichain.llm.block_turns import reply_limit, thinking_of
from wesichain.llm.calls import ToolNames
from wesichain.llm.local.grammar import answer_grammar
from wesichain.llm.local.grounding import values_in
from wesichain.llm.react_text import parse
from wesichain.llm.react_text.inputs import is_nothing, read_name, tidy
from wesichain.llm.react_text.lenient import load
from wesichain.llm.react_text.parsed import is_placeholder


def claude(**settings: Any) -> int | None:
    given = ModelSettings(**settings)
    return reply_limit(given, thinking_of(given, "budget")[0], default=4096)


def test_claude_thinks_with_1024_tokens_and_answers_with_one() -> None:
    assert claude(reasoning=1024, max_tokens=1025) == 1025
    for settings in ({"reasoning": 1023}, {"reasoning": 1024, "max_tokens": 1024}):
        with pytest.raises(ConfigError):
            claude(**settings)
    assert (claude(reasoning="low"), claude(), claude(reasoning="off")) == (6144, None, None)


@pytest.mark.parametrize(
    ("function", "within", "beyond"),
    [
        pytest.param(is_placeholder, f"<{'x' * 198}>", f"<{'x' * 199}>", id="a-placeholder"),
        pytest.param(is_nothing, f"{' ' * 21}N/A", f"{' ' * 22}N/A", id="an-input-that-says-nothing"),
        pytest.param(lambda text: read_name(text)[0], "a" * 200, "a" * 201, id="a-name"),
        pytest.param(lambda text: tidy(text) == "x", "x\nObs", "x\nOb", id="a-stop-word"),
        pytest.param(
            lambda text: text in values_in([Message(Role.USER, text)]).texts, "a" * 64, "a" * 65, id="an-id"
        ),
        pytest.param(lambda text: ToolNames([text]).to_wire(text) == text, "a" * 64, "a" * 65, id="a-tool"),
        pytest.param(
            lambda most: not Gbnf.of(answer_grammar({"maxLength": most, "type": "string"})).matches(f'"{"x" * 300}"'),
            256, 257, id="a-length",
        ),
        pytest.param(
            lambda most: not Gbnf.of(answer_grammar({"type": "integer", "minimum": 0, "maximum": most})).matches("999"),
            256, 257, id="a-range",
        ),
    ],
)  # fmt: skip
def test_a_bound_holds(function: Any, within: Any, beyond: Any) -> None:
    assert function(within)
    assert not function(beyond)


def test_json_is_mended_to_a_depth_and_a_length() -> None:
    assert load("[" * 199 + "['a']" + "]" * 199)[1] == ""
    with pytest.raises(CodecError, match="too deep"):
        load("[" * 200 + "['a']" + "]" * 200)
    assert len(load("[" + "'a'," * 9_999 + "]")[0]) == 9_999
    with pytest.raises(CodecError, match="too long"):
        load("[" + "'a'," * 10_000 + "]")


def test_a_refusal_quotes_sixty_characters_of_a_remark() -> None:
    call = 'Action: pay\nAction Input: {"to": "ann"}\n'
    assert f"'{'x' * 60}';" in parse(call + "x" * 60).reason
    assert f"'{'x' * 60}...';" in parse(call + "x" * 61).reason
