"""Tools of a harbour office, a good call of each, and calls that are made wrong by rule.

The form is that of the corpus `bfcl_tools.jsonl`: schema, valid call, invalid and debatable mutations of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def record(required: str, **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": required.split()}


# name: what it does, its schema, a call that is right
TOOLS: dict[str, tuple[str, Schema, Row]] = {
    "berth_free": ("Is a berth free?", record("berth", berth=WHOLE), {"berth": 7}),
    "tide": (
        "The height of the tide.",
        record("port day", port=TEXT, day=WHOLE, unit={"type": "string", "enum": ["m", "ft"]}),
        {"port": "Brest", "day": 3, "unit": "m"},
    ),
    "toll": ("What a ship pays.", record("tons length", tons=NUMBER, length=NUMBER), {"tons": 12.5, "length": 9}),
    "announce": ("Say it by radio.", record("text", text=TEXT, urgent=YES_NO), {"text": "fog", "urgent": True}),
    "log_depths": ("Enter soundings.", record("depths", depths=listed(NUMBER)), {"depths": [3.2, 4, 2.75]}),
    "book": (
        "Book a berth for a ship.",
        record("ship nights", ship=record("name crew", name=TEXT, crew=WHOLE), nights=WHOLE),
        {"ship": {"name": "Anna", "crew": 4}, "nights": 2},
    ),
    "route": (
        "A way along marks.",
        record("marks", marks=listed(record("lat lon", lat=NUMBER, lon=NUMBER))),
        {"marks": [{"lat": 48.3, "lon": -4.6}, {"lat": 48.4, "lon": -4.5}]},
    ),
    "lamps": ("Set the lamps.", record("on colours", on=YES_NO, colours=listed(TEXT)), {"on": False, "colours": ["red"]}),
    "clear": ("Clear a cargo.", record("papers", papers=record("kind pages", kind={"enum": ["bill", "list"]}, pages=WHOLE)), {"papers": {"kind": "bill", "pages": 3}}),
    "pilots": ("Which pilots are on duty?", record("", watch={"type": "string", "enum": ["day", "night"]}), {"watch": "night"}),
    "weigh": ("Weigh crates.", record("crates", crates=listed(listed(NUMBER))), {"crates": [[1.5, 2.25], [3.5]]}),
    "repair": (
        "Order a repair.",
        record("hull", hull=record("plank", plank=record("number rotten", number=WHOLE, rotten=YES_NO))),
        {"hull": {"plank": {"number": 12, "rotten": True}}},
    ),
}  # fmt: skip

WRONG: dict[str, tuple[Any, ...]] = {
    "string": (12, ["a"], None),
    "integer": ("twelve", [1], 1.5, None),
    "number": ("much", [1.0], None),
    "boolean": ("maybe", 1, None),
    "array": ("a, b", 3, None),
    "object": ("a record", [1], None),
}


def rows() -> Iterator[Row]:
    for name, (what, schema, call) in TOOLS.items():
        yield {
            "id": f"own-{name}",
            "description": what,
            "schema": schema,
            "valid_call": call,
            "invalid_mutations": list(broken(schema, call)),
            "policy_mutations": list(debatable(schema, call)),
        }


def broken(schema: Schema, call: Row) -> Iterator[Row]:
    """Calls that no reading of the schema allows: what is required left out, and every kind of wrong value."""
    top = TopLevel(schema, call)
    for name in schema["required"]:
        yield top.mutation("missing_required", [name], DROP)
    for path, wanted in walk(schema, call, ()):
        for value in wrong_values(wanted):
            yield top.mutation("wrong_value", path, value)


def debatable(schema: Schema, call: Row) -> Iterator[Row]:
    """Calls that are a matter of policy: kinds in quotes, whole floats, an argument that nobody asked for."""
    top = TopLevel(schema, call)
    for path, wanted in walk(schema, call, ()):
        value = value_at(call, path)
        match wanted.get("type"):
            case "integer":
                yield top.mutation("number_as_string", path, str(value))
                yield top.mutation("integral_float", path, float(value))
            case "boolean":
                yield top.mutation("bool_as_string", path, str(value).lower())
            case _:
                pass
    yield {"kind": "additional_property", "args": {**call, "nobody_asked": 1}}


DROP = object()


class TopLevel:
    """A schema's good call, of which one place is changed."""

    def __init__(self, schema: Schema, call: Row) -> None:
        self.schema = schema
        self.call = call

    def mutation(self, kind: str, path: list[Any], value: Any) -> Row:
        args = copy.deepcopy(self.call)
        holder = value_at(args, path[:-1])
        if value is DROP:
            del holder[path[-1]]
        else:
            holder[path[-1]] = value
        return {"kind": kind, "at": ".".join(map(str, path)), "args": args}


def walk(schema: Schema, value: Any, at: tuple[Any, ...]) -> Iterator[tuple[list[Any], Schema]]:
    """Every place of the call below the root, with the schema of what stands there."""
    if at:
        yield list(at), schema
    if schema.get("type") == "object":
        for name, inner in value.items():
            yield from walk(schema["properties"][name], inner, (*at, name))
    if schema.get("type") == "array":
        for index, inner in enumerate(value):
            yield from walk(schema["items"], inner, (*at, index))


def wrong_values(schema: Schema) -> tuple[Any, ...]:
    if "enum" in schema:
        return ("none of these", 12, None)
    if schema.get("required"):
        return (*WRONG["object"], {})
    return WRONG[schema["type"]]


def value_at(value: Any, path: list[Any]) -> Any:
    for step in path:
        value = value[step]
    return value
