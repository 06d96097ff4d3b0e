"""Canary secrets, wherever they can come from: none may be in anything that a run leaves behind."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from wesichain import AgentRuntime, ObserveErrors, tool
from wesichain.core import LlmResponse, Message, Role, ToolCall, to_json
from wesichain.testing import ScriptedLlm
from wesichain.trace import CollectingSink, ConsoleSink, Metrics, Recorder, diff, list_runs, load
from wesichain.trace.otel import OtelSink

IN_THE_ENVIRONMENT = "canary-env-5b1f9d0c7e"
CANARIES = [
    IN_THE_ENVIRONMENT,
    "sk-canaryOpenAi0123456789",
    "sk-ant-canary0123456789",
    "AKIACANARY0123456789",
    "ghp_canary0123456789abcdef",
    "canary-header-77",
    "canary-url-password",
    "canary-argument-42",
    "canary-keyword-13",
    "canary-exception-99",
]


@tool
async def log_in(url: str, password: str, headers: dict[str, str]) -> dict[str, str]:
    """Log in somewhere."""
    return {"session": "open", "access_token": "canary-keyword-13", "used": f"{url} with {headers}"}


@tool
async def fail(how: str) -> str:
    """Fail, and say too much."""
    raise ConnectionError(
        f"401 for https://bob:canary-url-password@host/x?api_key=canary-argument-42 "
        f"(Authorization: Bearer canary-header-77) env {IN_THE_ENVIRONMENT} "
        f"secret='canary-exception-99' {how}"
    )


REPLIES = [
    LlmResponse(
        f"I use {IN_THE_ENVIRONMENT} and sk-canaryOpenAi0123456789 for this.",
        (
            ToolCall(
                "c1",
                "log_in",
                {
                    "url": "https://bob:canary-url-password@host/",
                    "password": "canary-argument-42",
                    "headers": {"Authorization": "Bearer canary-header-77", "x-api-key": "canary-keyword-13"},
                },
            ),
        ),
        reasoning="the key AKIACANARY0123456789 should do",
    ),
    LlmResponse("", (ToolCall("c2", "fail", {"how": "ghp_canary0123456789abcdef"}),)),
    LlmResponse("", (ToolCall("c3", "no_such_tool", {"token": "canary-argument-42"}),)),
    LlmResponse("", (ToolCall("c4", "fail", "password=canary-argument-42 is not JSON"),)),
    LlmResponse("Done with sk-ant-canary0123456789."),
]


async def test_no_canary_sings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CANARY_API_KEY", IN_THE_ENVIRONMENT)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    console, metrics, collected = io.StringIO(), Metrics(), CollectingSink()
    runtime = AgentRuntime(
        ScriptedLlm(REPLIES),
        [log_in, fail],
        policy=ObserveErrors(),
        instructions=f"The key is {IN_THE_ENVIRONMENT}.",
        events=[
            Recorder(tmp_path),
            Recorder(tmp_path, durable=True),
            ConsoleSink(console),
            OtelSink(tracer_provider=provider, content=True),
            metrics,
            collected,
        ],
    )
    history = [Message(Role.USER, "my password=canary-argument-42"), Message(Role.ASSISTANT, "noted")]
    with caplog.at_level(logging.DEBUG, "wesichain"):
        await runtime.run(f"Use {IN_THE_ENVIRONMENT}, please", history=history)

    recordings = [load(summary.path) for summary in list_runs(tmp_path)]
    assert [recording.complete for recording in recordings] == [True, True]
    assert recordings[0].status == "completed"
    left_behind = {
        "files": "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir()),
        "names of files": " ".join(path.name for path in tmp_path.iterdir()),
        "list": repr(list_runs(tmp_path)),
        "console": console.getvalue(),
        "spans": "".join(span.to_json() for span in exporter.get_finished_spans()),
        "metrics": metrics.table() + metrics.prometheus(),
        "collected": "".join(map(to_json, collected.events)),
        "difference": "".join(map(str, diff(recordings[0], recordings[0].events[:-4]))),
        "log": caplog.text,
    }
    for place, text in left_behind.items():
        assert text or place == "log", place
        for canary in CANARIES:
            assert canary not in text, place
    assert "[redacted:environment]" in left_behind["files"]
    assert "[redacted:url-credentials]" in left_behind["files"]
