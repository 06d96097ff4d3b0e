"""The server that the official conformance suite is run against: its tools, resources and prompts, as ours.

python -m tests.tools.mcp.conformance.server
"""

from __future__ import annotations

import asyncio
import logging
import sys
from base64 import b64decode
from typing import Any

from wesichain.core import Audio, Document, Image
from wesichain.core.internal import dump_json
from wesichain.errors import ToolError
from wesichain.tools import JsonTool, ToolContext, tool
from wesichain.tools.mcp import (
    ServedChanges,
    ServedPrompt,
    ServedResource,
    elicit,
    release_stream,
    roots,
    sample,
    serve_http,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = bytes.fromhex(
    "524946462400000057415645666d74201000000001000100401f0000803e000002001000646174610000000000"[:88]
)
IMAGE = Image(b64decode(PNG), media_type="image/png")
CHANGES = ServedChanges()
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


@tool
async def test_sampling(prompt: str) -> str:
    """Ask the client's model."""
    return f"LLM response: {await sample(prompt, max_tokens=100)}"


@tool
async def test_missing_capability() -> str:
    """Ask the client's model, which it may not have."""
    return await sample("Are you there?")


@tool
async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Say how far it is, and ask."""
    await ctx.progress(1, 2, "half")
    return await ask("Please confirm", {"ok": {"type": "boolean"}})


@tool
def test_logging_tool() -> str:
    """Log without having been asked to."""
    log.info("This is a log line")
    return "logged"


@tool
def test_trigger_tool_change() -> str:
    """Announce that the list of tools has changed."""
    CHANGES.tools()
    return "announced"


@tool
def test_trigger_prompt_change() -> str:
    """Announce that the list of prompts has changed."""
    CHANGES.prompts()
    return "announced"


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@tool
async def test_input_required_result_elicitation() -> str:
    """Ask for a name."""
    return f"Hello, {(await elicit('What is your name?', NAME, key='user_name') or {}).get('name')}!"


@tool
async def test_input_required_result_sampling() -> str:
    """Ask the client's model."""
    return await sample("What is the capital of France?", max_tokens=100, key="capital_question")


@tool
async def test_input_required_result_list_roots() -> str:
    """Ask for the client's folders."""
    return ", ".join(await roots(key="client_roots"))


@tool
async def test_input_required_result_request_state() -> str:
    """Ask for consent; the call itself is the state."""
    return f"state-ok: {await elicit('Please confirm', OK, key='confirm')}"


@tool
async def test_input_required_result_tampered_state() -> str:
    """Ask for consent; a state that was never given out is refused."""
    return f"confirmed: {await elicit('Please confirm', OK, key='confirm')}"


@tool
async def test_input_required_result_multiple_inputs() -> str:
    """Ask for three things at once."""
    name, greeting, folders = await asyncio.gather(
        elicit("What is your name?", NAME, key="user_name"),
        sample("Generate a greeting", max_tokens=50, key="greeting"),
        roots(key="client_roots"),
    )
    return f"{greeting} {name} {folders}"


@tool
async def test_input_required_result_multi_round() -> str:
    """Ask twice, the second time with the answer to the first."""
    colour = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    name = await elicit("Step 1: What is your name?", NAME, key="step1")
    answer = await elicit("Step 2: What is your favorite color?", colour, key="step2")
    return f"{name} likes {answer}"


@tool
async def test_input_required_result_capabilities() -> str:
    """Ask for what the client can give."""
    found = []
    for question in (elicit("Your name?", NAME, key="user_name"), sample("Say hello", key="greeting")):
        try:
            found.append(str(await question))
        except ToolError as error:
            found.append(str(error))
    return "; ".join(found)


TEXT = {"type": "string"}
json_schema_2020_12_tool = JsonTool(
    "json_schema_2020_12_tool",
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": TEXT, "city": TEXT},
            }
        },
        "properties": {
            "name": TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": TEXT,
            "email": TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    lambda args: args,
)
test_header_tool = JsonTool(
    "test_header_tool",
    "An argument of it is sent as a header, too",
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": TEXT},
        "required": ["region"],
    },
    lambda args: f"in {args['region']}",
)

TOOLS = [
    *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
    *(test_multiple_content_types, test_tool_with_logging, test_tool_with_progress, test_error_handling),
    *(test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums),
    *(test_reconnection, json_schema_2020_12_tool, test_header_tool, test_sampling, test_missing_capability),
    *(test_streaming_elicitation, test_logging_tool, test_trigger_tool_change, test_trigger_prompt_change),
    *(test_input_required_result_elicitation, test_input_required_result_sampling),
    *(test_input_required_result_list_roots, test_input_required_result_request_state),
    *(test_input_required_result_tampered_state, test_input_required_result_multiple_inputs),
    *(test_input_required_result_multi_round, test_input_required_result_capabilities),
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


async def asking_prompt() -> str:
    context = {"type": "object", "properties": {"context": TEXT}, "required": ["context"]}
    answer = await elicit("What context should the prompt use?", context, key="user_context")
    return f"Use this context: {answer}"


PROMPTS = [
    ServedPrompt("test_input_required_result_prompt", asking_prompt, "A prompt that asks"),
    ServedPrompt("test_simple_prompt", lambda: "This is a simple prompt for testing.", "A simple prompt"),
    ServedPrompt(
        "test_prompt_with_arguments",
        lambda arg1, arg2: f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
        "A prompt with arguments",
        {"arg1": ["test", "testing", "paris", "park"]},
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
            changes=CHANGES,
            announce=lambda url: print(url, file=sys.stderr, flush=True),
        )
    )
