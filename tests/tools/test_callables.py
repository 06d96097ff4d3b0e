"""Everything people write as a tool: its schema, the calls that fit, the calls that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools.callables.forms import FORMS
from tests.tools.callables.values import VALUES, Case
from wesichain.core import ToolCall
from wesichain.errors import InvalidArgsError
from wesichain.tools import FunctionTool, Tool, ToolContext, ToolSet, tool, validate_json


def as_tool(item: Any) -> Tool:
    if isinstance(item, Tool):
        return item
    if isinstance(item, type):
        return item()  # type: ignore[no-any-return]  # a TypedTool
    made: FunctionTool[..., Any] = tool(item)
    return made


def name_of(case: Case) -> str:
    item = case[0]
    inner = getattr(item, "func", item)
    return str(getattr(item, "name", None) or getattr(inner, "__name__", None) or type(item).__name__)


CASES = [*VALUES, *FORMS]
ROWS = [pytest.param(case, id=f"{index}-{name_of(case)}") for index, case in enumerate(CASES)]
_MADE: dict[int, Tool] = {}  # to read a signature takes longer than most tests of it


def made(case: Case) -> Tool:
    if id(case) not in _MADE:
        _MADE[id(case)] = as_tool(case[0])
    return _MADE[id(case)]


@pytest.mark.parametrize("case", ROWS)
def test_the_schema_says_what_the_callable_takes_in_json_that_providers_accept(case: Case) -> None:
    parameters = dict(made(case).spec.parameters)
    for key, expected in case[1].items():
        if key in ("required", "additionalProperties", "$defs"):
            assert parameters.get(key) == expected
        elif key == "properties" and isinstance(expected, list):
            assert list(parameters["properties"]) == expected
        elif key == "properties":
            assert parameters["properties"] == expected
        else:
            assert parameters["properties"][key] == expected
    assert json.loads(json.dumps(parameters)) == parameters
    assert parameters["type"] == "object"
    assert isinstance(parameters["properties"], dict)
    assert '"title":' not in json.dumps(parameters).replace(
        '"title": {', ""
    )  # only a property may be called so
    for args, _ in case[2]:
        assert validate_json(parameters, args) == []
    (strict,) = ToolSet().register(made(case)).build().specs(strict=True)
    check_strict(dict(strict.parameters))


def check_strict(schema: Any) -> None:
    """The strict form is closed and requires everything."""
    if isinstance(schema, list):
        for item in schema:
            check_strict(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
        for value in schema.values():
            check_strict(value)


@pytest.mark.parametrize("case", ROWS)
async def test_calls_that_fit_give_their_result_and_others_are_refused_in_words(case: Case) -> None:
    tool = made(case)
    registry = ToolSet().register(tool).build()
    (name,) = registry.names
    for args, expected in case[2]:
        result = await registry.dispatch(ToolCall("1", name, args), ToolContext(step_id=7))
        assert result.error is None
        assert result.value == expected
        assert type(result.value) is type(expected)
    for args in case[3]:
        result = await registry.dispatch(ToolCall("1", name, args))
        assert isinstance(result.error, InvalidArgsError), (args, result.value)
        assert result.error.issues
        assert result.error.call_id == "1"
        assert tool.signature in str(result.error)
        assert len(str(result.error)) <= 2000
