"""The server that the official conformance suite is run against: its tools, resources and prompts, as ours.

python -m tests.tools.mcp.conformance.server
"""

from __future__ import annotations

import asyncio
import logging
import sys
from base64 import b64decode
from typing import Any

from wesichain.core import Audio, Document, Image, dump_json
from wesichain.errors import ToolError
from wesichain.tools import JsonTool, ToolContext, tool
from wesichain.tools.mcp import ServedPrompt, ServedResource, elicit, release_stream, serve_http

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = bytes.fromhex(
    "524946462400000057415645666d74201000000001000100401f0000803e000002001000646174610000000000"[:88]
)
IMAGE = Image(b64decode(PNG), media_type="image/png")
log = logging.getLogger("wesichain.mcp.conformance")


def document(text: str, url: str) -> Document:
    return Document(text.encode(), media_type="text/plain", name=url)


@tool(effect="pure", blocking=False)
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(effect="pure")
def test_image_content() -> Any:
    """Return a picture."""
    return IMAGE


@tool(effect="pure")
async def test_audio_content() -> Any:
    """Return a sound."""
    return Audio(WAV, "audio/wav")


@tool(effect="pure")
async def test_embedded_resource() -> Any:
    """Return a document."""
    return document("This is an embedded resource content.", "test://embedded-resource")


@tool(effect="pure")
async def test_multiple_content_types() -> Any:
    """Return a text, a picture and a document."""
    text = '{"test":"data","value":123}'
    return ["Multiple content types test:", IMAGE, document(text, "test://mixed-content-resource")]


@tool
async def test_tool_with_logging() -> str:
    """Log while it runs."""
    log.info("Tool execution started")
    await asyncio.sleep(0.05)
    log.info("Tool processing data")
    await asyncio.sleep(0.05)
    log.info("Tool execution completed")
    return "Tool with logging executed successfully"


@tool
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Say how far it is."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@tool
def test_error_handling() -> None:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_elicitation(message: str) -> str:
    """Ask the user."""
    text = {"type": "string"}
    fields = {
        "username": {**text, "description": "User's response"},
        "email": {**text, "description": "Address"},
    }
    return f"User response: {await ask(message, fields, required=['username', 'email'])}"


@tool
async def test_elicitation_sep1034_defaults() -> str:
    """Ask with defaults."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await ask('Please fill in', fields)}"


@tool
async def test_elicitation_sep1330_enums() -> str:
    """Ask for choices."""
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"}
        for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await ask('Please choose', fields)}"


async def ask(message: str, fields: dict[str, Any], required: list[str] | None = None) -> str:
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": required or []}
    answer = await elicit(message, schema)
    return f"action={'decline' if answer is None else 'accept'}, content={dump_json(answer or {})}"


@tool
async def test_reconnection() -> str:
    """Let the connection go, and answer later."""
    await asyncio.sleep(0.1)
    await release_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully"


json_schema_2020_12_tool = JsonTool(
    "json_schema_2020_12_tool",
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
    lambda args: args,
)

TOOLS = [
    *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
    *(test_multiple_content_types, test_tool_with_logging, test_tool_with_progress, test_error_handling),
    *(test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums),
    *(test_reconnection, json_schema_2020_12_tool),
]
RESOURCES = [
    ServedResource(
        "test://static-text", lambda: "This is the content of the static text resource.", "Static text"
    ),
    ServedResource(
        "test://static-binary", lambda: b"\x89PNG\r\n\x1a\n", "Static binary", media_type="image/png"
    ),
    ServedResource(
        "test://template/{id}/data",
        lambda id: dump_json({"id": id, "templateTest": True, "data": f"Data for ID: {id}"}),  # noqa: A006  # the suite's name
        "Template",
        media_type="application/json",
    ),
]
PROMPTS = [
    ServedPrompt("test_simple_prompt", lambda: "This is a simple prompt for testing.", "A simple prompt"),
    ServedPrompt(
        "test_prompt_with_arguments",
        lambda arg1, arg2: f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
        "A prompt with arguments",
    ),
    ServedPrompt(
        "test_prompt_with_embedded_resource",
        lambda resourceUri: [  # the name of the suite
            document("Embedded resource content for testing.", resourceUri),
            "Please process the embedded resource above.",
        ],
        "A prompt with a document",
    ),
    ServedPrompt(
        "test_prompt_with_image",
        lambda: [IMAGE, "Please analyze the image above."],
        "A prompt with a picture",
    ),
]

if __name__ == "__main__":
    asyncio.run(
        serve_http(
            TOOLS,
            resources=RESOURCES,
            prompts=PROMPTS,
            announce=lambda url: print(url, file=sys.stderr, flush=True),
        )
    )
