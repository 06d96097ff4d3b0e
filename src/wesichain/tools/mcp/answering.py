"""Answering: what a server asks a person, answered by the program that uses the server."""

from __future__ import annotations

from typing import Any

from wesichain.core import is_object
from wesichain.tools.json_schema.compile import validate

from .offer import OnElicit
from .sdk import types


async def answer(
    ask: OnElicit, _: object, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """The person's answer, with the defaults of what they left out; what does not fit is not sent."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")  # to visit a page is not ours to do
    schema: dict[str, Any] = params.requested_schema
    try:
        given = await ask(params.message, schema)
    except Exception as error:  # noqa: BLE001  # a callback of the user's; the server is not told what it was
        return types.ErrorData(
            code=types.INTERNAL_ERROR, message=f"the question failed: {type(error).__name__}"
        )
    if given is None:
        return types.ElicitResult(action="decline")
    content = {**defaults(schema), **given}
    issues = validate(schema, content)
    if issues:
        said = f"the answer does not fit what was asked for: {issues[0]}"
        return types.ErrorData(code=types.INVALID_PARAMS, message=said)
    return types.ElicitResult(action="accept", content=content)


def defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """What the fields of a form are, where nobody says otherwise."""
    fields = schema.get("properties", {})
    return {
        name: field["default"] for name, field in fields.items() if is_object(field) and "default" in field
    }
