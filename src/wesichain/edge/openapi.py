"""OpenAPI: the description of the plain API, for generators of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain._version import __version__

from .bodies import RUN_ID


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


_TEXT = {"type": "string"}
_USAGE = {"type": "object", "additionalProperties": {"type": "integer"}}
_ABOUT = {"run_id": _TEXT, "conversation": _TEXT, "cost": {"type": ["number", "null"]}, "usage": _USAGE}
_PENDING = _object(
    {
        "token": _TEXT,
        "call": _object({"id": _TEXT, "name": _TEXT, "args": {}}, "id", "name", "args"),
        "scope": {"type": "array", "items": _TEXT},
        "external": {"type": "boolean"},
        "expires_at": {"type": "number"},
        "question": {"type": "object"},
    },
    *("token", "call", "scope", "external"),
)
_DECISION = _object(
    {
        "kind": {"enum": ["approve", "approve_with", "refuse", "provide"]},
        "args": {},
        "reason": _TEXT,
        "value": {},
        "error": _TEXT,
    },
    "kind",
)
ORDER_FIELDS: dict[str, Any] = {
    "task": _TEXT,
    "conversation": _TEXT,
    "run_id": {"type": "string", "pattern": f"^{RUN_ID}$"},
    "settings": {"type": "object"},
    "agent": _TEXT,
    "stay": {"type": "boolean", "default": False},
}
"""The fields of a request that starts a run, with their schemas."""
_SCHEMAS: dict[str, Any] = {
    "Order": {**_object(ORDER_FIELDS, "task"), "additionalProperties": False},
    "Completed": _object(
        {**_ABOUT, "output": {}, "stopped_by": {"type": ["string", "null"]}}, "run_id", "output", "cost"
    ),
    "Waiting": _object(
        {**_ABOUT, "reason": _TEXT, "pending": {"type": "array", "items": _PENDING}}, "run_id", "pending"
    ),
    "Decisions": {
        "type": "object",
        "description": "A decision for the token of each waiting call.",
        "additionalProperties": _DECISION,
    },
    "Error": _object({"error": _TEXT, "kind": _TEXT, "run_id": _TEXT}, "error"),
}


def document(path: str, agents: Sequence[str]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of an app under a path."""
    answer: dict[str, Any] = {
        "200": _json("The answer.", "Completed"),
        "202": _json("The run waits for decisions.", "Waiting"),
        "4XX": _json("The request was refused, or the run failed.", "Error"),
        "5XX": _json("The service or the run failed.", "Error"),
    }
    stream: dict[str, Any] = {
        "200": {"description": "Server-sent events; `id` is the event's number.", "content": {_SSE: {}}},
        "4XX": _json("The request was refused.", "Error"),
    }
    paths: dict[str, Any] = {
        "/runs": {"post": {"summary": "Run a task to its end.", **_body("Order"), "responses": answer}},
        "/runs/stream": {
            "post": {"summary": "Run a task, as events.", **_body("Order"), "responses": stream}
        },
        "/runs/{id}/events": {
            "get": {
                "summary": "The events of a run, after Last-Event-ID if it is given.",
                "parameters": [_ID, {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}}],
                "responses": {**stream, "410": _json("The events were dropped.", "Error")},
            }
        },
        "/runs/{id}/decisions": {
            "post": {
                "summary": "Decide on all waiting calls at once.",
                "parameters": [_ID],
                **_body("Decisions"),
                "responses": answer,
            }
        },
        "/runs/{id}/cancel": {
            "post": {
                "summary": "Cancel a run.",
                "parameters": [_ID],
                "responses": {"200": {"description": "Cancelled."}, "4XX": _json("Refused.", "Error")},
            }
        },
        "/health": {
            "get": {"summary": "Health check.", "responses": {"200": {"description": "The service is up."}}}
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": ", ".join(agents), "version": __version__},
        "paths": {f"{path}{at}": what for at, what in paths.items()},
        "components": {"schemas": _SCHEMAS},
    }


_SSE = "text/event-stream"
_ID = {"name": "id", "in": "path", "required": True, "schema": _TEXT}


def _json(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _ref(schema)}}}


def _body(schema: str) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(schema)}}}}


def _ref(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}
