"""Laws of dispatch: it never raises, and what a schema allows is accepted."""

from __future__ import annotations

import asyncio
import json
import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.tools.test_arguments import registry
from wesichain.core import ToolCall
from wesichain.errors import InvalidArgsError

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.text(alphabet=st.characters(codec=None), max_size=3)
    | st.binary(max_size=3)
    | st.sampled_from([object(), Exception(), Ellipsis]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(string.ascii_lowercase, max_size=6), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from(["a", "b", "items", "unit", "value", "query"]), inner, max_size=3)
    ),
    max_leaves=8,
)
REGISTRY = registry()


@draws(25)
@given(st.sampled_from(REGISTRY.names), ANYTHING)
def test_law_dispatch_never_raises_whatever_the_arguments(name: str, args: Any) -> None:
    result = asyncio.run(REGISTRY.dispatch(ToolCall("1", name, args)))
    assert result.ok or str(result.error)
    if result.ok:
        json.dumps(result.value, allow_nan=False)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema of these tests allows."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values(option) for option in schema["anyOf"]])
    match schema.get("type"):
        case "integer":
            return st.integers()
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if "pattern" in schema:
            return st.text(string.ascii_lowercase, min_size=3)
        case "string":
            return st.text()
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "object" if "properties" in schema:
            required = schema.get("required", [])
            fields = {name: values(field) for name, field in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: field for name, field in fields.items() if name in required},
                optional={name: field for name, field in fields.items() if name not in required},
            )
        case "object":
            return st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
        case _:
            return st.none() | st.integers() | st.text()


SPECS = {spec.name: dict(spec.parameters) for spec in REGISTRY.specs()}


@draws(25)
@given(st.sampled_from(sorted(SPECS)).flatmap(lambda name: st.tuples(st.just(name), values(SPECS[name]))))
def test_law_what_the_schema_allows_is_accepted(call: tuple[str, Any]) -> None:
    name, args = call
    assert not isinstance(REGISTRY.prepare(ToolCall("1", name, args)), InvalidArgsError)
