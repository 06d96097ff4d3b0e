"""The port of a public deep-research example: a lead, researchers beside each other, a report with sources."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.draws import sampled
from wesichain.agent import Completed
from wesichain.core import LlmRequest, Role, ToolCall
from wesichain.kit import MemoryFiles, plan_in
from wesichain.testing import Faults, FunctionLlm, Scenario, Trace, simulate_sync

EXAMPLE = ROOT / "examples" / "deep_research" / "research.py"
ORIGINAL_LINES = 367  # langchain-ai/deepagents, examples/deep_research: agent.py and research_agent/*.py
TOPICS = ("tides", "waves")
REPORT = (
    "# Power from the sea\n\nTides can be foretold [1]; waves cannot [2].\n\n"
    "### Sources\n[1] tides: https://example.org/tides\n[2] waves: https://example.org/waves\n"
)


@pytest.fixture
def example() -> Any:
    spec = spec_from_file_location("deep_research_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ITEMS = [{"task": topic, "status": "pending"} for topic in TOPICS]
STEPS: list[list[ToolCall]] = [
    [ToolCall("p", "write_plan", {"items": ITEMS}), ToolCall("q", "write_file", {"path": "question.md", "text": "Tides or waves?"})],
    [ToolCall(topic, "delegate", {"agent": "researcher", "task": topic}) for topic in TOPICS],
    [ToolCall("r", "write_file", {"path": "report.md", "text": REPORT})],
    [ToolCall("v", "read_file", {"path": "question.md"})],
]  # fmt: skip


def lead(request: LlmRequest) -> Any:
    """Takes the next step that has no result yet."""
    done = {message.tool_call_id for message in request.messages}
    return next((step for step in STEPS if step[-1].id not in done), "Tides can be foretold; waves cannot.")


def researcher(request: LlmRequest) -> Any:
    """Searches once, thinks, and answers: for whichever topic it was given."""
    topic = next(message.text for message in request.messages if message.role is Role.USER)
    done = sum(message.role is Role.TOOL for message in request.messages)
    steps = [
        ToolCall(f"s{done}", "search", {"query": topic}),
        ToolCall(f"s{done}", "think", {"reflection": "That is enough."}),
        f"{topic} [1]\n### Sources\n[1] {topic}: https://example.org/{topic}",
    ]
    return steps[done]


class Sea:
    """The world of a run: a library to search, and the folder of the report."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.queries: list[str] = []

    async def __call__(self, query: str) -> list[dict[str, str]]:
        self.queries.append(query)
        page = f"All about {query}. " * 2_000  # longer than a request may be: it is kept in a file
        return [{"title": query, "url": f"https://example.org/{query}", "content": page}]


async def test_it_plans_delegates_side_by_side_and_writes_a_report(example: Any) -> None:
    sea, below = Sea(), FunctionLlm(researcher)
    agent = example.make_agent(FunctionLlm(lead), sea.files, researcher_model=below)
    outcome = await agent.outcome("Tides or waves?", deps=sea)
    assert isinstance(outcome, Completed)
    assert sorted(sea.queries) == ["tides", "waves"]
    assert sea.files.read("report.md") == REPORT
    assert plan_in(outcome.messages) == ITEMS
    assert max(len(message.text) for request in below.requests for message in request.messages) < 12_000
    assert outcome.spent.steps == 5 + 2 * 3


@pytest.mark.sampled
def test_it_is_resumed_wherever_its_process_dies(example: Any) -> None:
    def files_of(ctx: Any) -> Any:
        return ctx.deps.files

    def make() -> Any:
        return example.make_agent(FunctionLlm(lead), files_of, researcher_model=FunctionLlm(researcher))

    def the_report_is_written(trace: Trace) -> None:
        assert isinstance(trace.outcome, Completed), trace.outcome
        assert trace.world.files.read("report.md") == REPORT
        assert all(len({effect.key for effect in trace.effects[name]}) == 1 for name in ("write_plan",))

    scenario = Scenario(make, "Tides or waves?", world=Sea, invariants=[the_report_is_written])
    report = simulate_sync(scenario, seeds=sampled(range(40), 3), faults=Faults.none(crash=0.1))
    assert report.ok, str(report)


def test_it_is_shorter_than_the_original() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) * 4 < ORIGINAL_LINES
