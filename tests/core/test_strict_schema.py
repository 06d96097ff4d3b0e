"""Strict forms of schemas: what has one, what is in it, and the way back."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.draws import draws
from wesichain.core.internal import narrowed_schema, strict_schema, without_nulls
from wesichain.tools import validate_json

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Leg(BaseModel):
    to: str
    seats: int = 1


class Trip(BaseModel):
    """A plain model, with defaults, nested models, a union and a list."""

    name: str
    kind: Literal["a", "b"] = "a"
    first: Leg
    second: Leg | None = None
    legs: list[Leg] = []
    note: str | None = None


class Node(BaseModel):
    value: int = 0
    next: Node | None = None


def closed_objects(schema: Any) -> bool:
    """Whether every object of a schema is closed and requires all its properties."""
    if isinstance(schema, list):
        return all(map(closed_objects, schema))
    if not isinstance(schema, dict):
        return True
    right = "properties" not in schema or (
        schema["additionalProperties"] is False and schema["required"] == list(schema["properties"])
    )
    return right and all(map(closed_objects, schema.values()))


def test_what_is_strict_stays_as_it_is() -> None:
    assert strict_schema(CLOSED) == CLOSED


@pytest.mark.parametrize("model", [Trip, Leg, Node], ids=lambda model: model.__name__)
def test_a_plain_model_has_a_strict_form(model: type[BaseModel]) -> None:
    form = strict_schema(model.model_json_schema())
    assert form is not None
    assert closed_objects(form)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({**CLOSED, "additionalProperties": True}, id="free-keys"),
        pytest.param({**CLOSED, "additionalProperties": {"type": "string"}}, id="free-keys-of-a-type"),
        pytest.param({**CLOSED, "patternProperties": {}}, id="keys-by-pattern"),
        pytest.param({"type": "object"}, id="any-object"),
        pytest.param({"type": "object", "properties": {"a": {}}}, id="any-value"),
        pytest.param({"type": "object", "properties": {"a": True}}, id="true"),
        pytest.param({"type": "object", "properties": {"a": {"type": "array"}}}, id="any-list"),
        pytest.param({"type": "array", "items": {"type": "string"}}, id="no-object"),
        pytest.param({"anyOf": [CLOSED, CLOSED]}, id="a-union-at-the-root"),
    ],
)
def test_what_leaves_open_what_may_come_has_none(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None
    if "properties" in schema:
        assert closed_objects(narrowed_schema(schema))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            {"name": "x", "kind": None, "first": {"to": "y", "seats": None}, "second": None, "legs": None, "note": None},
            {"name": "x", "first": {"to": "y"}},
        ),
        (
            {"name": "x", "kind": "b", "first": {"to": "y", "seats": 2}, "second": {"to": "z", "seats": None}, "legs": [{"to": "q", "seats": None}], "note": "n"},
            {"name": "x", "kind": "b", "first": {"to": "y", "seats": 2}, "second": {"to": "z"}, "legs": [{"to": "q"}], "note": "n"},
        ),
    ],
    ids=["all-left-out", "some-left-out"],
)  # fmt: skip
def test_a_null_for_a_default_is_not_given(said: Any, meant: Any) -> None:
    schema = Trip.model_json_schema()
    form = strict_schema(schema)
    assert form is not None
    assert validate_json(form, said) == []
    assert without_nulls(schema, said) == meant
    Trip.model_validate(meant, strict=True)


def test_it_follows_a_type_into_itself() -> None:
    said = {"value": None, "next": {"value": 1, "next": {"value": None, "next": None}}}
    assert without_nulls(Node.model_json_schema(), said) == {"next": {"value": 1, "next": {}}}


def test_of_several_forms_the_fitting_one_is_followed() -> None:
    cat = {
        "type": "object",
        "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
        "required": ["kind"],
    }
    dog = {
        "type": "object",
        "properties": {"kind": {"const": "dog"}, "lives": {"type": "null"}},
        "required": ["kind", "lives"],
    }
    schema = {"type": "object", "properties": {"pet": {"anyOf": [cat, dog]}}, "required": ["pet"]}
    assert without_nulls(schema, {"pet": {"kind": "cat", "lives": None}}) == {"pet": {"kind": "cat"}}
    assert without_nulls(schema, {"pet": {"kind": "dog", "lives": None}}) == {
        "pet": {"kind": "dog", "lives": None}
    }
    pets = {"type": "object", "properties": {"pet": {"anyOf": [cat, {"type": "array", "items": cat}]}}}
    said = {"kind": "cat", "lives": None}
    assert without_nulls(pets, {"pet": [said, said]}) == {"pet": [{"kind": "cat"}] * 2}


def test_a_reference_to_itself_ends() -> None:
    loop = {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}
    assert without_nulls(loop, {"a": None}) == {"a": None}
    leaf = {"type": "object", "properties": {"a": {"type": "string"}}}
    choice = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#"}, leaf]}}, "$ref": "#/$defs/A"}
    assert without_nulls(choice, {"a": None}) == {}


def test_a_long_chain_of_references_is_followed() -> None:
    names = {f"A{n}": {"anyOf": [{"$ref": f"#/$defs/A{n + 1}"}]} for n in range(60)}
    leaf = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"$defs": {**names, "A60": leaf}, "$ref": "#/$defs/A0"}
    assert without_nulls(schema, {"a": None}) == {}


trips = st.builds(
    Trip,
    name=st.text(max_size=3),
    kind=st.sampled_from(["a", "b"]),
    first=st.builds(Leg, to=st.text(max_size=3), seats=st.integers()),
    second=st.none() | st.builds(Leg, to=st.text(max_size=3)),
    legs=st.lists(st.builds(Leg, to=st.text(max_size=3), seats=st.integers()), max_size=2),
    note=st.none() | st.text(max_size=3),
)


@draws(15)
@given(trips)
def test_whatever_the_model_says_comes_back_as_it_was_meant(trip: Trip) -> None:
    said = trip.model_dump(mode="json")
    assert Trip.model_validate(without_nulls(Trip.model_json_schema(), said)) == trip
