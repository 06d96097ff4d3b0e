"""As taken: pydantic's JSON schema, where it says less than pydantic takes."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import override


class AsTaken(GenerateJsonSchema):
    """A NamedTuple is taken as an object with its names, and as a list: the names help a model more."""

    @override
    def named_tuple_schema(self, schema: Any) -> dict[str, Any]:
        listed = super().named_tuple_schema(schema)
        if self.mode != "validation":
            return listed
        fields: list[Any] = schema["fields"]
        named: dict[str, Any] = {
            "type": "object",
            "properties": {field["name"]: self.generate_inner(field["schema"]) for field in fields},
            "required": [field["name"] for field in fields if field["schema"]["type"] != "default"],
            "additionalProperties": False,
        }
        return {"anyOf": [named, listed]}
