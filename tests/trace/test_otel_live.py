"""Instrumentation: spans are current where the work is done, and say what the conventions ask for."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from opentelemetry import trace
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode
from typing_extensions import TypedDict

from tests.agent.test_output import InPieces
from tests.cli.stub_server import serving, text
from tests.trace.test_otel import own, parent, said
from wesichain import END, START, Agent, AgentRuntime, CancellationToken, GraphBuilder, tool
from wesichain.agent import Interrupted, SqliteConversations
from wesichain.agent.model_names import resolve_model
from wesichain.core import LlmRequest, LlmResponse, Message, Role, Usage
from wesichain.core.internal import around
from wesichain.errors import GraphInterruptedError, NodeFailedError
from wesichain.graph import ExecutionOptions, MemoryCheckpointer, interrupt
from wesichain.llm.google import GoogleClient
from wesichain.llm.openai import OpenAiClient
from wesichain.testing import FunctionLlm, ScriptedLlm, StreamingScriptedLlm, calls
from wesichain.trace import otel
from wesichain.trace.otel.conventions import provider_of


@dataclass(slots=True)
class World:
    """A real SDK, a real HTTP client that is traced, and a server for it."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    provider: TracerProvider
    url: str
    options: dict[str, Any]

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def points(self, metric: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]


@pytest.fixture
def world() -> Iterator[World]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    RequestsInstrumentor().instrument(tracer_provider=provider)
    options: dict[str, Any] = {"tracer_provider": provider, "meter_provider": meters}
    made = otel.instrument(**options)
    yield World(exporter, reader, provider, f"http://127.0.0.1:{server.server_address[1]}", options)
    made.close()
    RequestsInstrumentor().uninstrument()
    server.shutdown()
    server.server_close()
    assert around.hook is None


def close(hook: object) -> None:
    assert isinstance(hook, otel.Instrumentation)
    hook.close()


async def test_a_run_whose_steps_are_taken_in_several_tasks_ends_its_span(world: World) -> None:
    run = Agent(ScriptedLlm(["done"]), name="a").runtime.open("go")
    while run.outcome is None:
        await asyncio.create_task(run.step())
    (span,) = world.named("invoke_agent a")
    assert said(span)["wesichain.steps"] == 1
    assert not trace.get_current_span().is_recording()


@pytest.mark.parametrize("kind", ["sync", "async", "blocking-in-async"])
async def test_what_a_tool_traces_stands_below_its_call(world: World, kind: str) -> None:
    def get(city: str) -> int:
        """Ask a server."""
        return requests.get(f"{world.url}/{city}", timeout=10).status_code

    async def aget(city: str) -> int:
        """Ask a server."""
        if kind == "async":
            return await asyncio.to_thread(get, city)
        return get(city)

    fetch = tool(name="fetch")(get if kind == "sync" else aget)
    asked = [("fetch", {"city": f"c{number}"}) for number in range(8)]
    agent = Agent(ScriptedLlm([calls(*asked), "done"]), tools=[fetch], tool_concurrency=8)
    await agent.run("go")
    tools = {own(span): span for span in world.named("execute_tool fetch")}
    requested = [
        span for span in world.spans() if "http.method" in said(span) or "http.request.method" in said(span)
    ]
    assert len(tools) == len(requested) == 8
    assert {parent(span) for span in requested} == set(tools)  # each below its own
    (run,) = world.named("invoke_agent")
    assert {parent(span) for span in tools.values()} == {own(run)}
    assert {parent(span) for span in world.spans() if span.name.startswith("chat")} == {own(run)}
    assert len({span.context.trace_id for span in world.spans() if span.context}) == 1


async def test_runs_at_once_and_nested_are_one_tree_each(world: World) -> None:
    inner = Agent(FunctionLlm(lambda _: "inner"), name="helper")

    async def ask(number: int) -> None:
        model = ScriptedLlm([calls(("helper", {"task": f"t{number}"})), "outer"])
        with world.provider.get_tracer("test").start_as_current_span(f"request {number}"):
            await Agent(model, tools=[inner.as_tool()]).run("go")

    await asyncio.gather(*(ask(number) for number in range(8)))
    by_id = {own(span): span for span in world.spans()}
    nested = [
        span
        for span in world.spans()
        if span.name.startswith("invoke_agent") and by_id[parent(span) or 0].name == "execute_tool helper"
    ]
    assert len(nested) == 8
    for span in nested:
        names = []
        at: ReadableSpan | None = span
        while at is not None:
            names.append(at.name.split(" ")[0])
            at = by_id.get(parent(at) or 0)
        assert names == ["invoke_agent", "execute_tool", "invoke_agent", "request"]
        assert said(span)["gen_ai.agent.name"] == "helper"


async def test_after_a_run_the_caller_has_its_own_span_again(world: World) -> None:
    tracer = world.provider.get_tracer("test")
    with tracer.start_as_current_span("mine") as mine:
        await Agent(FunctionLlm(lambda _: "one")).run("a")
        assert trace.get_current_span() is mine
        outcome = await AgentRuntime(FunctionLlm(_broken)).run("b")
        assert type(outcome).__name__ == "Failed"
        assert trace.get_current_span() is mine
    assert not trace.get_current_span().get_span_context().is_valid


def _broken(_: object) -> str:
    raise ConnectionError("token=abc123def456 is no good")


@pytest.mark.parametrize("where", ["model", "tool"])
async def test_a_cancelled_run_leaves_no_span_open(world: World, where: str) -> None:
    token = CancellationToken()

    async def stuck(_: Any = None) -> LlmResponse:
        token.cancel("enough")
        await asyncio.sleep(30)
        raise AssertionError

    @tool(name="wait")
    async def wait() -> str:
        """Wait."""
        await stuck()
        return ""

    class Stuck:
        complete = staticmethod(stuck)

    model = Stuck() if where == "model" else ScriptedLlm([calls(("wait", {}))])
    before = trace.get_current_span()
    outcome = await AgentRuntime(model, [wait]).run("go", cancellation=token)
    assert isinstance(outcome, Interrupted)
    assert trace.get_current_span() is before
    names = {span.name.split(" ")[0] for span in world.spans()}
    assert names == (
        {"chat", "invoke_agent"} if where == "model" else {"chat", "execute_tool", "invoke_agent"}
    )
    assert all(span.end_time for span in world.spans())


async def test_a_real_client_names_provider_and_tokens(world: World) -> None:
    with serving(text("hi")) as url:
        async with Agent(OpenAiClient("gpt-5", base_url=url, api_key="k")).stream("hello") as run:
            async for _ in run:
                pass
    (chat,) = world.named("chat gpt-5")
    assert chat.kind is SpanKind.CLIENT
    assert said(chat)["gen_ai.provider.name"] == "openai"
    assert said(chat)["gen_ai.response.id"] == "x"
    assert said(chat)["gen_ai.response.model"] == "stub"
    (invoked,) = world.named("invoke_agent")
    assert said(invoked)["gen_ai.provider.name"] == "openai"


async def test_a_client_without_a_run_leaves_the_span_of_an_earlier_call_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(text("hi"), text("again")) as url:
        client = OpenAiClient("gpt-5", base_url=url, api_key="k")
        await Agent(client).run("hello")
        await client.complete(LlmRequest("gpt-5", (Message(Role.USER, "hello"),)))
    assert len(world.named("chat gpt-5")) == 1
    assert "ended span" not in caplog.text, "the SDK warns of a change after the end"


async def test_a_run_has_the_provider_of_its_first_model_call(world: World) -> None:
    class Router(ScriptedLlm):
        """Sends every call but the first to another provider."""

        @property
        def provider(self) -> str:
            return "acme" if self.requests else "groq"

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    await Agent(Router([calls(("look", {})), "done"]), tools=[look]).run("go")
    providers = [said(span)["gen_ai.provider.name"] for span in world.named("chat scripted")]
    assert providers == ["groq", "acme"]
    (run,) = world.named("invoke_agent")
    assert said(run)["gen_ai.provider.name"] == "groq"


class Mine(SimpleNamespace):
    """A client of one's own."""


@pytest.mark.parametrize(
    ("llm", "model", "provider"),
    [
        pytest.param(Mine(base_url="https://api.mistral.ai/v1"), "large", "mistral_ai", id="by-its-host"),
        pytest.param(Mine(base_url="https://mistral.ai/v1"), "large", "mistral_ai", id="by-the-host-itself"),
        pytest.param(Mine(base_url="https://notmistral.ai/v1"), "x", "notmistral.ai", id="by-a-like-host"),
        pytest.param(Mine(base_url="https://x.openai.azure.com"), "d", "azure.ai.openai", id="azure"),
        pytest.param(Mine(base_url="http://127.0.0.1:11434/v1"), "llama3", "ollama", id="ollama"),
        pytest.param(Mine(base_url="http://gpu.lan:8000/v1"), "qwen", "gpu.lan", id="a-host-of-ones-own"),
        pytest.param(Mine(base_url="http://gpu.lan:8000/v1"), "claude-opus", "anthropic", id="a-relay"),
        pytest.param(Mine(provider="bedrock"), "nova", "aws.bedrock", id="as-it-says"),
        pytest.param(Mine(provider="acme"), "nova", "acme", id="as-it-says-in-its-own-words"),
        pytest.param(Mine(models=[Mine(provider="groq"), Mine()]), "x", "groq", id="the-first-of-several"),
        pytest.param(Mine(llm=Mine(provider="groq")), "x", "groq", id="the-one-inside"),
        pytest.param(Mine(), "claude-opus", "anthropic", id="by-the-model"),
        pytest.param(Mine(), "mine", "tests", id="a-class-of-ones-own"),
        pytest.param(resolve_model("openai:x"), "x", "openai", id="openai"),
        pytest.param(resolve_model("responses:x"), "x", "openai", id="responses"),
        pytest.param(resolve_model("azure:x"), "x", "azure.ai.openai", id="openai-on-azure"),
        pytest.param(resolve_model("anthropic:x"), "x", "anthropic", id="anthropic"),
        pytest.param(resolve_model("google:x"), "x", "gcp.gemini", id="google"),
        pytest.param(GoogleClient("x", project="p", location="l"), "x", "gcp.vertex_ai", id="vertex"),
        pytest.param(resolve_model("bedrock:x"), "x", "aws.bedrock", id="bedrock"),
        pytest.param(resolve_model("mistral:x"), "x", "mistral_ai", id="mistral"),
        pytest.param(resolve_model("groq:gpt-oss"), "gpt-oss", "groq", id="groq"),
        pytest.param(resolve_model("openrouter:x"), "x", "openrouter", id="openrouter"),
        pytest.param(resolve_model("ollama:x"), "x", "ollama", id="a-local-ollama"),
        pytest.param(resolve_model("local:smollm2-135m"), "smollm2-135m", "llama.cpp", id="local"),
        pytest.param(OpenAiClient("x", base_url="http://gpu.lan/v1"), "x", "gpu.lan", id="a-compatible-server"),
    ],
)  # fmt: skip
def test_the_provider(llm: Any, model: str, provider: str) -> None:
    assert provider_of(llm, model) == provider


async def test_the_whole_input_is_told_where_content_is_captured(world: World) -> None:
    assert otel.instrument(**world.options, content=True) is around.hook

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedLlm([calls(("add", {"a": 1, "b": 2}), content="I add."), "it is 3"])
    await Agent(model, tools=[add], instructions="Be brief. password=hunter2secret").run("1 + 2?")
    first, last = (json.loads(said(span)["gen_ai.input.messages"]) for span in world.named("chat scripted"))
    assert [message["role"] for message in first] == ["system", "user"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "tool"]
    assert "hunter2secret" not in str([said(span) for span in world.spans()])
    (call,) = world.named("execute_tool add")
    assert json.loads(said(call)["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
    assert said(call)["gen_ai.tool.call.result"] == "3"
    assert said(call)["gen_ai.tool.description"] == "Add."
    assert json.loads(said(world.named("invoke_agent")[0])["gen_ai.output.messages"])[0]["parts"][0] == {
        "type": "text",
        "content": "it is 3",
    }
    close(around.hook)


async def test_nothing_that_was_said_is_told_otherwise(world: World) -> None:
    await Agent(FunctionLlm(lambda _: "an answer"), instructions="secretive").run("a question")
    told = str([said(span) for span in world.spans()])
    assert "an answer" not in told
    assert "a question" not in told
    assert "secretive" not in told


async def test_a_conversation_is_on_every_span(world: World) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    with otel.conversation("c-17"):
        await Agent(ScriptedLlm([calls(("look", {})), "done"]), tools=[look]).run("x")
    assert {said(span).get("gen_ai.conversation.id") for span in world.spans()} == {"c-17"}
    world.exporter.clear()
    await Agent(FunctionLlm(lambda _: "x")).run("y")
    assert {said(span).get("gen_ai.conversation.id") for span in world.spans()} == {None}


async def test_a_stored_conversation_names_itself(world: World, tmp_path: Path) -> None:
    helper = Agent(FunctionLlm(lambda _: "inner"), name="helper")
    model = ScriptedLlm([calls(("helper", {"task": "x"})), "one", "two", "three"])
    agent = Agent(model, tools=[helper.as_tool()])
    with closing(SqliteConversations(tmp_path / "talk.db")) as store:
        await agent.run("a", conversation=store.open("c-1"))
        told = [said(span).get("gen_ai.conversation.id") for span in world.spans()]
        assert {*told} == {"c-1"}, "on every span, those of agents below too"
        world.exporter.clear()
        await asyncio.gather(
            agent.run("b", conversation=store.open("c-2")), agent.run("c", conversation=store.open("c-3"))
        )
        runs = world.named("invoke_agent")
        assert {said(span)["gen_ai.conversation.id"] for span in runs} == {"c-2", "c-3"}
        by_run = {own(span): said(span)["gen_ai.conversation.id"] for span in runs}
        for span in world.named("chat scripted"):
            assert said(span)["gen_ai.conversation.id"] == by_run[parent(span) or 0]
    world.exporter.clear()
    await Agent(FunctionLlm(lambda _: "x")).run("d")
    assert {said(span).get("gen_ai.conversation.id") for span in world.spans()} == {None}


@pytest.mark.parametrize("kind", ["sync", "async", "blocking"])
async def test_the_nodes_of_a_graph_are_current_while_they_run(world: World, kind: str) -> None:
    agent = Agent(FunctionLlm(lambda _: "hi"), name="greeter")

    def fetch(state: dict[str, Any]) -> dict[str, Any]:
        requests.get(f"{world.url}/x", timeout=10)
        return {"seen": True}

    async def afetch(state: dict[str, Any]) -> dict[str, Any]:
        return fetch(state)

    async def greet(state: dict[str, Any]) -> dict[str, Any]:
        return {"said": (await agent.run("hello")).output}

    def fail(state: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no: api_key=sk-live-abcdefghijklmnop1234")

    builder = GraphBuilder(dict)
    blocking = True if kind == "blocking" else None
    builder.add_node("fetch", afetch if kind == "async" else fetch, blocking=blocking)
    builder.add_node("greet", greet)
    builder.add_edge(START, "fetch").add_edge(START, "greet")
    builder.add_node("fail", fail).add_edge("fetch", "fail").add_edge("fail", END)
    with pytest.raises(NodeFailedError):
        await builder.build().invoke({})
    (graph,) = world.named("invoke_workflow")
    nodes = {name: world.named(f"node {name}")[0] for name in ("fetch", "greet", "fail")}
    assert {parent(span) for span in nodes.values()} == {own(graph)}
    (request,) = [span for span in world.spans() if span.name == "GET"]
    assert parent(request) == own(nodes["fetch"])
    (run,) = world.named("invoke_agent greeter")
    assert parent(run) == own(nodes["greet"])
    assert said(nodes["fail"])["error.type"] == "ValueError"
    assert nodes["fail"].status.status_code is graph.status.status_code is StatusCode.ERROR
    assert "abcdefghijklmnop1234" not in str([span.status.description for span in world.spans()])
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_graph_that_waits_for_an_answer_has_not_failed(world: World) -> None:
    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": interrupt("Go on?")}

    builder = GraphBuilder(dict).add_node("ask", ask).set_entry("ask")
    with pytest.raises(GraphInterruptedError):
        await builder.build(MemoryCheckpointer()).invoke({}, ExecutionOptions(thread_id="t"))
    (graph,) = world.named("invoke_workflow")
    assert graph.status.status_code is StatusCode.UNSET
    assert "error.type" not in said(graph)


async def test_runs_tools_and_first_chunks_are_measured_under_names_of_their_own(world: World) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    replies = [calls(("look", {}), ("look", {})), LlmResponse("all seen")]
    agent = Agent(ScriptedLlm(replies), tools=[look], name="looker")
    async with agent.stream("x") as run:
        assert [event async for event in run]

    def points(name: str) -> list[tuple[int, float]]:
        return [(point.count, point.sum) for point in world.points(name)]

    assert points("gen_ai.invoke_agent.inference_calls") == [(1, 2)]
    assert points("gen_ai.invoke_agent.tool_calls") == [(1, 2)]
    assert [count for count, _ in points("gen_ai.invoke_agent.duration")] == [1]
    assert [count for count, _ in points("gen_ai.execute_tool.duration")] == [2]
    ((count, seconds),) = points("gen_ai.client.operation.time_to_first_chunk")
    assert count == 1, "of the call that said something"
    assert seconds > 0


class Town(TypedDict):
    name: str
    country: str


TOWN = {"name": "Winterthur", "country": "Switzerland"}


@pytest.mark.parametrize(
    "llm",
    [
        pytest.param(StreamingScriptedLlm([json.dumps(TOWN)]), id="as-text"),
        pytest.param(InPieces([calls(("final_answer", TOWN))]), id="as-arguments"),
    ],
)
async def test_the_first_piece_of_a_typed_answer_is_the_first_chunk(world: World, llm: Any) -> None:
    mode: Any = "tool" if isinstance(llm, InPieces) else "auto"
    async with Agent(llm, output_type=Town, output_mode=mode).stream("x") as run:
        assert [event async for event in run]
    (first,) = world.points("gen_ai.client.operation.time_to_first_chunk")
    (chat,) = [
        point
        for point in world.points("gen_ai.client.operation.duration")
        if point.attributes["gen_ai.operation.name"] == "chat"
    ]
    assert first.count == chat.count == 1
    assert 0 < first.sum < chat.sum


async def test_every_name_is_one_of_the_conventions(world: World) -> None:
    otel.instrument(**world.options, content=True)

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    with otel.conversation("c"):
        await Agent(
            ScriptedLlm([calls(("look", {})), LlmResponse("x", usage=Usage(1, 2))]), tools=[look]
        ).run("x")
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in world.spans() for name in said(span)}
    assert {name for name in used if name.startswith("gen_ai.")} <= known
    assert {name for name in used if not name.startswith(("gen_ai.", "wesichain."))} == set()
    data = world.reader.get_metrics_data()
    assert data is not None
    metrics = {m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert metrics == {
        gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION,
        gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE,
        # of the conventions' own repository, which no package holds yet
        "gen_ai.invoke_agent.duration",
        "gen_ai.invoke_agent.inference_calls",
        "gen_ai.invoke_agent.tool_calls",
        "gen_ai.execute_tool.duration",
    }
    close(around.hook)


async def test_closing_undoes_it(world: World) -> None:
    close(around.hook)
    await Agent(FunctionLlm(lambda _: "x")).run("y")
    assert world.spans() == []
