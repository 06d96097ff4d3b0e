"""Schemas as a model sees them: tidy, inlined, strict; and the signature line."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from wesichain.tools import JsonTool, ToolSet, tool, validate_json


class Leaf(BaseModel):
    """A leaf."""

    title: str = Field(title="Nice title", description="what it is called")
    size: int | None = None


class Branch(BaseModel):
    leaves: list[Leaf]
    main: Leaf


class Node(BaseModel):
    leaf: Leaf
    next: Node | None = None


def parameters(function: Any, *, strict: bool = False) -> dict[str, Any]:
    (spec,) = ToolSet().register(function).build().specs(strict=strict)
    return dict(spec.parameters)


def climb(a: Branch, b: Leaf | None = None) -> str:
    """Climb.

    Args:
        a: what to climb
    """
    return a.main.title


def follow(a: Node) -> str:
    """Follow."""
    return a.leaf.title


LEAF = {
    "type": "object",
    "description": "A leaf.",
    "properties": {
        "title": {"type": "string", "description": "what it is called"},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "required": ["title"],
}


def test_references_are_written_out_and_titles_left_out() -> None:
    schema = parameters(climb)
    assert "$defs" not in schema
    assert schema["properties"]["a"]["description"] == "what to climb"
    assert schema["properties"]["a"]["properties"]["main"] == LEAF
    assert schema["properties"]["a"]["properties"]["leaves"]["items"] == LEAF


def test_recursive_references_stay_and_nothing_else_does() -> None:
    schema = parameters(follow)
    assert list(schema["$defs"]) == ["Node"]
    assert schema["properties"]["a"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["leaf"] == LEAF
    assert validate_json(schema, {"a": {"leaf": {"title": "x"}, "next": {"leaf": {"title": "y"}}}}) == []
    assert validate_json(schema, {"a": {"leaf": {"title": "x"}, "next": {"leaf": {}}}}) != []


def test_a_schema_that_would_explode_keeps_its_references() -> None:
    model: Any = Leaf
    for level in range(15):
        model = create_model(f"Level{level}", left=(model, ...), right=(model, ...))

    def big(a: Any) -> None:
        """Take much."""

    big.__annotations__["a"] = model
    schema = parameters(big)
    assert len(str(schema)) < 20_000
    assert "$defs" in schema


# --- the strict form -----------------------------------------------------------------------------


def test_the_strict_form_closes_objects_and_makes_the_optional_nullable() -> None:
    def book(
        *,
        city: str,
        nights: int = 1,
        kind: Literal["single", "double"] = "single",
        leaf: Leaf | None = None,
        tags: dict[str, int] | None = None,
        when: Leaf = Leaf(title="x"),  # noqa: B008
    ) -> None:
        """Book."""

    schema = parameters(book, strict=True)
    fields = schema["properties"]
    assert schema["required"] == list(fields)
    assert schema["additionalProperties"] is False
    assert fields["city"] == {"type": "string"}
    assert fields["nights"] == {"type": ["integer", "null"]}
    assert fields["kind"] == {"anyOf": [{"enum": ["single", "double"], "type": "string"}, {"type": "null"}]}
    strict_leaf = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "what it is called"},
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["title", "size"],
        "additionalProperties": False,
    }
    assert fields["leaf"] == {"anyOf": [{**strict_leaf, "description": "A leaf."}, {"type": "null"}]}
    assert fields["when"] == {"anyOf": [strict_leaf, {"type": "null"}], "description": "A leaf."}
    assert fields["tags"]["anyOf"][0] == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"type": "string", "minLength": 1, "title": "x", "default": "y"},
            {"type": "string"},
            id="drops-what-is-not-supported",
        ),
        pytest.param(
            {"type": "string", "format": "date"},
            {"type": "string", "format": "date"},
            id="keeps-known-formats",
        ),
        pytest.param({"type": "string", "format": "path"}, {"type": "string"}, id="drops-unknown-formats"),
        pytest.param(
            {"type": "string", "pattern": "^a"},
            {"type": "string", "pattern": "^a"},
            id="keeps-plain-patterns",
        ),
        pytest.param({"type": "string", "pattern": "^(?!a)"}, {"type": "string"}, id="drops-look-ahead"),
        pytest.param(
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            id="oneOf-is-anyOf",
        ),
        pytest.param({}, {"type": ["string", "number", "boolean", "null"]}, id="any-value-is-any-scalar"),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {
                "type": "array",
                "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "minItems": 2,
                "maxItems": 2,
            },
            id="a-tuple-is-a-list",
        ),
        pytest.param(
            {
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "null"}}},
                ]
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
            id="allOf-is-merged",
        ),
    ],
)
def test_a_field_in_strict_form(given: dict[str, Any], expected: dict[str, Any]) -> None:
    made = JsonTool("x", "", {"type": "object", "properties": {"f": given}, "required": ["f"]}, print)
    found = parameters(made, strict=True)["properties"]["f"]
    assert {key: sorted(value) if key == "required" else value for key, value in found.items()} == expected


def test_recursion_survives_the_strict_form() -> None:
    schema = parameters(follow, strict=True)
    node = schema["$defs"]["Node"]
    assert node["required"] == ["leaf", "next"]
    assert node["properties"]["next"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    assert schema["properties"]["a"] == {"$ref": "#/$defs/Node"}


def test_the_ordinary_form_is_untouched_by_the_strict_one() -> None:
    registry = ToolSet().register(climb).build()
    before = str(registry.specs()[0].parameters)
    registry.specs(strict=True)
    assert str(registry.specs()[0].parameters) == before


# --- the signature line --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        pytest.param({}, "f()", id="nothing"),
        pytest.param({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, "f(a: int)", id="one"),
        pytest.param(
            {"properties": {"a": {"type": "string", "default": "x"}}}, 'f(a: str = "x")', id="a-default"
        ),
        pytest.param(
            {"properties": {"a": {"type": "boolean", "default": False}}}, "f(a: bool = False)", id="false"
        ),
        pytest.param({"properties": {"a": {}}}, "f(a: Any = ...)", id="an-unknown-default"),
        pytest.param(
            {"properties": {"a": {"enum": ["x", 1, None]}}, "required": ["a"]},
            'f(a: "x" | 1 | None)',
            id="choices",
        ),
        pytest.param(
            {"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
            "f(a: str | None)",
            id="two-types",
        ),
        pytest.param(
            {"properties": {"a": {"type": "array", "items": {"type": "number"}}}, "required": ["a"]},
            "f(a: list[float])",
            id="a-list",
        ),
        pytest.param(
            {
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"x": {"type": "integer"}, "y": {}},
                        "required": ["x"],
                    }
                },
                "required": ["a"],
            },
            "f(a: {x: int, y?: Any})",
            id="an-object",
        ),
        pytest.param(
            {
                "properties": {"a": {"type": "object", "additionalProperties": {"type": "null"}}},
                "required": ["a"],
            },
            "f(a: dict[str, None])",
            id="a-mapping",
        ),
        pytest.param(
            {"properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]},
            "f(a: str (date))",
            id="a-format",
        ),
        pytest.param({"additionalProperties": {"type": "integer"}}, "f(**: int)", id="further-fields"),
    ],
)
def test_the_signature_is_one_line(schema: dict[str, Any], line: str) -> None:
    assert JsonTool("f", "", {"type": "object", **schema}, print).signature == line


def test_a_refusal_has_as_much_of_the_signature_as_fits() -> None:
    schema = {"type": "object", "properties": {f"field_{n}": {"enum": list(range(100))} for n in range(100)}}
    usage = str(JsonTool("f", "", schema, print).rejected([])).partition("Use it as: ")[2]
    assert len(usage) == 600
    assert usage.startswith("f(field_0: 0 | 1 | 2")


def test_an_annotation_may_name_what_the_function_closes_over() -> None:
    def make(*, early: bool) -> Any:
        class Local(BaseModel):
            x: int

        def act(a: Local) -> Any:
            """Act."""
            return later(a), Local

        made = tool(act) if early else act  # early: before the last of what it closes over is there

        def later(local: Local) -> int:
            return local.x

        return made

    for made in (make(early=True), tool(make(early=False))):
        assert made.spec.parameters["properties"]["a"]["properties"] == {"x": {"type": "integer"}}
