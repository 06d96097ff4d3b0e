"""Values that the process holds as secrets: wherever they came from, they are masked wherever they leave."""

from __future__ import annotations

import io
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from wesichain import AgentRuntime, ObserveErrors, tool
from wesichain.core import LlmResponse, ToolCall, to_json
from wesichain.durable import DurableRuns
from wesichain.errors import StoreError, ToolError
from wesichain.llm.openai import OpenAiClient
from wesichain.store import PostgresStore
from wesichain.testing import ScriptedLlm
from wesichain.tools import ToolRegistry
from wesichain.tools.mcp import McpServer
from wesichain.trace import CollectingSink, ConsoleSink, Recorder, Redactor, redact, register_secret
from wesichain.trace.otel import OtelSink

HELD = "Pelican/quay+lantern=7"


@tool
async def log_in(password: SecretStr) -> str:
    """Log in."""
    return f"{len(password.get_secret_value())} letters"


async def a_tool_that_took_it() -> object:
    result = await ToolRegistry([log_in]).dispatch(ToolCall("c", "log_in", {"password": HELD}))
    assert result.value == "22 letters"
    return None


async def a_database_that_is_not_there() -> object:
    with pytest.raises(StoreError) as caught:
        await PostgresStore(URL).get(("a",), "b")
    assert HELD not in redact(caught.value)
    return None


async def what_a_program_registered() -> object:
    register_secret(HELD)
    return None


async def kept(value: object) -> object:
    return value


AUTHORIZATION = {"Authorization": f"Bearer {HELD}"}
URL = f"postgresql://svc:{quote(HELD, safe='')}@127.0.0.1:1/x"
SOURCES: dict[str, Callable[[], Awaitable[object]]] = {
    "the key of a client": lambda: kept(OpenAiClient("m", api_key=HELD)),
    "its headers": lambda: kept(OpenAiClient("m", api_key="k", headers={"X-Auth-Token": HELD})),
    "the headers of an MCP server": lambda: kept(
        McpServer.http("http://127.0.0.1:9/mcp", headers=AUTHORIZATION)
    ),
    "the environment of one": lambda: kept(McpServer.stdio("true", env={"THE_TOKEN": HELD})),
    "the URL of an engine": lambda: kept(DurableRuns(URL)),
    "the URL of a store": a_database_that_is_not_there,
    "a SecretStr of a tool": a_tool_that_took_it,
    "what a program registered": what_a_program_registered,
}


@tool
async def fail(how: str) -> str:
    """Fail, and say too much."""
    raise ToolError(f"cannot log in with {HELD} ({how})")


@pytest.mark.parametrize("source", SOURCES)
async def test_it_leaves_by_no_way(source: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    owner = await SOURCES[source]()
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    console, collected = io.StringIO(), CollectingSink()
    written = b64encode(f"svc:{HELD}".encode()).decode()
    runtime = AgentRuntime(
        ScriptedLlm(
            [LlmResponse("", (ToolCall("c1", "fail", {"how": written}),)), LlmResponse(f"It was {HELD}.")]
        ),
        [fail],
        policy=ObserveErrors(),
        events=[
            Recorder(tmp_path),
            ConsoleSink(console),
            OtelSink(tracer_provider=provider, content=True),
            collected,
        ],
    )
    await runtime.run(f"Use {quote(HELD, safe='')}, please")
    logging.getLogger("wesichain.edge").error("%s failed", HELD)
    left = {
        "files": "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir()),
        "console": console.getvalue(),
        "spans": "".join(span.to_json() for span in exporter.get_finished_spans()),
        "collected": "".join(map(to_json, collected.events)),
        "log": caplog.text,
        "error": redact(ConnectionError(f"no way in with {HELD}")),
    }
    forms = (HELD, quote(HELD, safe=""), written, HELD.encode().hex())
    assert {place: form for place, text in left.items() for form in forms if form in text} == {}
    assert all("[redacted:registered]" in text for text in left.values())
    del owner


def test_what_was_seen_before_it_was_a_secret_is_masked_from_then_on() -> None:
    redactor = Redactor(environ={})
    text = "the harbour is at Wharf-Seven-19"
    assert redactor.text(text) is text
    register_secret("Wharf-Seven-19")
    assert redactor.text(text) == "the harbour is at [redacted:registered]"


async def test_a_run_without_sinks_redacts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("redacted")

    with monkeypatch.context() as patched:
        patched.setattr(Redactor, "__init__", refuse)
        result = await AgentRuntime(ScriptedLlm([LlmResponse("fine")]), []).run("hello")
    assert getattr(result, "output", None) == "fine"
