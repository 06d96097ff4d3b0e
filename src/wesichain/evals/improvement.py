"""Improvement: rewrites an agent's instructions and tool descriptions, and tests them on held-out cases.

Half of the cases are held out: the rewriter never sees them, and a paired comparison on them decides whether
the new texts are better. On the other half, a model reads failed runs and rewrites the texts; a rewrite is
kept if more of these cases pass. The agent is not changed: the caller decides whether to use the texts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import unified_diff
from hashlib import sha256
from importlib.resources import files
from typing import Any

from wesichain.agent import Agent
from wesichain.agent.internal import resolve_model
from wesichain.core import (
    Event,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    StepFailed,
    ToolCallingLlm,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import (
    Value,
    dump_json,
    field,
    find_json_object,
    is_array,
    is_object,
    replace,
    to_plain,
    traits_of,
)
from wesichain.errors import ConfigError, LlmError
from wesichain.policy import Budget

from .cases import Case
from .comparison import compare
from .evaluation import evaluate
from .results import Report, Result
from .scores import Check, Judge

RUNS = 200  # the default limit
_FEWEST = 4  # cases: two for learning, two held out
_BATCH = 12  # cases that a rewrite is tried on
_FAILURES = 6  # runs that the rewriter reads
_CALLS = 12  # lines about the calls of a run
_LONG = 500  # characters of a task, an answer or a reason


class AgentTexts(Value):
    """The texts of an agent that can be rewritten; `instructions` is None if a function makes them."""

    instructions: str | None
    tools: Mapping[str, str] = field(default_factory=dict[str, str])  # descriptions, by name


class Improvement(Value):
    """Rewritten texts, and their results on held-out cases.

    `before` and `after` are shares of passed held-out cases, `lift` is their difference, and `low` and `high`
    its 95 % interval. `passed` says whether the texts are significantly better. `diff` is a unified diff.
    """

    instructions: str | None
    tools: Mapping[str, str]
    before: float
    after: float
    lift: float
    low: float
    high: float
    diff: str
    passed: bool = False
    runs: int = 0


async def improve(
    agent: Agent[Any, Any],
    cases: Iterable[Case],
    *,
    llm: ToolCallingLlm | str | None = None,
    budget: Budget | int = RUNS,
    checks: Sequence[Check] = (),
    judge: Judge | None = None,
    at_once: int = 4,
    deps: Any = None,
    on_step: Callable[[str], None] | None = None,
) -> Improvement:
    """Rewrite an agent's instructions and tool descriptions so that more cases pass.

    `llm` rewrites the texts; the default is the agent's model. `budget` is the number of runs, or a `Budget`
    whose `tokens` and `seconds` limit all runs together (at most 200). The agent itself is not changed.
    """
    chosen = tuple(cases)
    if len(chosen) < _FEWEST:
        raise ConfigError(
            f"improve needs at least {_FEWEST} cases, half of which are held out; got {len(chosen)}"
        )
    trials = _Trials(agent, checks=checks, judge=judge, at_once=at_once, deps=deps, budget=budget)
    learn, held = halves(chosen)
    own = texts_of_agent(agent)
    best, kept = own, await trials.run(learn[:_BATCH], own)
    rewriter = _Rewriter(resolve_model(llm) if llm is not None else agent.llm)
    round_ = 0
    while kept.failures and trials.left >= len(kept.results) + 2 * len(held):
        round_ += 1
        failed = [trials.failure(one, learn) for one in kept.failures[:_FAILURES]]
        candidate = await rewriter.rewrite(best, failed)
        if candidate is None or candidate == best:
            break
        report = await trials.run(learn[:_BATCH], candidate)
        is_kept = report.share > kept.share
        if on_step is not None:
            verdict = "kept" if is_kept else "dropped"
            on_step(
                f"rewrite {round_}: {kept.share:.0%} -> {report.share:.0%} of the learning cases, {verdict}"
            )
        if is_kept:
            best, kept = candidate, report
        else:
            rewriter.drop(candidate)
    if best == own:
        share = (await trials.run(held, own)).share
        return Improvement(own.instructions, own.tools, share, share, 0.0, 0.0, 0.0, "", runs=trials.runs)
    before, after = await trials.run(held, own), await trials.run(held, best)
    found = compare(before.results, after.results)
    shares = (found.before, found.after, found.difference, found.low, found.high)
    diff = _diff(own, best)
    return Improvement(best.instructions, best.tools, *shares, diff, found.is_better, trials.runs)


def halves(cases: Sequence[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Split the cases into those for learning and those held out, by a hash of their ids."""
    ordered = sorted(cases, key=lambda case: sha256(case.id.encode()).digest())
    return tuple(ordered[::2]), tuple(ordered[1::2])


def texts_of_agent(agent: Agent[Any, Any]) -> AgentTexts:
    """Return the current texts of an agent."""
    fixed = agent.fixed_instructions if agent.has_instructions else ""
    return AgentTexts(fixed, {tool.name: tool.spec.description for tool in agent.runtime.registry})


class RewrittenLlm:
    """A model that receives other instructions and tool descriptions than those of the agent."""

    def __init__(self, llm: ToolCallingLlm, own: AgentTexts, texts: AgentTexts) -> None:
        self._llm = llm
        self._own = own.instructions
        self._texts = texts
        self.model = str(getattr(llm, "model", "") or type(llm).__name__)
        self.traits = traits_of(llm)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        tools = tuple(
            replace(tool, description=self._texts.tools.get(tool.name, tool.description))
            for tool in request.tools
        )
        return await self._llm.complete(
            replace(request, messages=self._instructed(request.messages), tools=tools)
        )

    def _instructed(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        new = self._texts.instructions
        if self._own is None or not new:
            return tuple(messages)
        first = messages[0] if messages and messages[0].role is Role.SYSTEM else None
        if first is None:
            return Message(Role.SYSTEM, new), *messages
        rest = first.text
        if rest.startswith(self._own):
            rest = rest.removeprefix(self._own).lstrip("\n")
        return Message(Role.SYSTEM, f"{new}\n\n{rest}" if rest else new), *messages[1:]


class _Trials:
    """Runs cases with given texts, and counts runs and tokens."""

    def __init__(self, agent: Agent[Any, Any], *, budget: Budget | int, **options: Any) -> None:
        self._agent = agent
        self._own = texts_of_agent(agent)
        self._options = options
        self._budget = budget
        self._began = time.monotonic()
        self._tokens = 0
        self._calls = _Calls()
        self.runs = 0

    @property
    def left(self) -> int:
        """The number of runs that the rest of the budget allows, estimated from the runs so far."""
        if isinstance(self._budget, int):
            return self._budget - self.runs
        shares = [self.runs / RUNS]
        if self._budget.tokens is not None:
            shares.append(self._tokens / self._budget.tokens)
        if self._budget.seconds is not None:
            shares.append((time.monotonic() - self._began) / self._budget.seconds)
        used = max(shares)
        return int(self.runs * (1.0 - used) / used) if used > 0 else RUNS

    async def run(self, cases: Sequence[Case], texts: AgentTexts) -> Report:
        model = None if texts == self._own else RewrittenLlm(self._agent.llm, self._own, texts)
        report = await evaluate(self._agent, cases, model=model, events=[self._calls], **self._options)
        self.runs += len(report.results)
        self._tokens += report.usage.total_tokens
        return report

    def failure(self, result: Result, cases: Sequence[Case]) -> dict[str, Any]:
        """Return the description of a failed run for the rewriter."""
        return {
            "task": next(case.task for case in cases if case.id == result.case)[:_LONG],
            "calls": self._calls.by_run.get(result.run_id, [])[-_CALLS:],
            "answer": dump_json(result.output)[:_LONG],
            "why": (result.why or result.error)[:_LONG],
        }


class _Calls:
    """A sink that keeps the calls and results of each run, one line each."""

    def __init__(self) -> None:
        self.by_run: dict[str, list[str]] = {}

    def emit(self, event: Event) -> None:
        match event:
            case ToolDispatched(call=call):
                line = f"{call.name}({dump_json(to_plain(call.args))})"
            case ToolCompleted(value=value):
                line = f"returned {dump_json(to_plain(value))}"
            case StepFailed(message=message):
                line = f"failed: {message}"
            case _:
                return
        self.by_run.setdefault(event.run_id, []).append(line[:_LONG])


class _Rewriter:
    """Asks a model to rewrite the texts."""

    def __init__(self, llm: ToolCallingLlm) -> None:
        self._llm = llm
        self._prompt = (files("wesichain.evals") / "prompts" / "improve.md").read_text(encoding="utf-8")
        self._dropped: list[str] = []

    def drop(self, texts: AgentTexts) -> None:
        """Remember a rewrite that did not help, so that it is not proposed again."""
        self._dropped.append(texts.instructions or "")

    async def rewrite(self, texts: AgentTexts, failed: Sequence[Mapping[str, Any]]) -> AgentTexts | None:
        """Return the texts that the model proposes; None if its reply cannot be read."""
        facts = {
            "instructions": texts.instructions,
            "tools": dict(texts.tools),
            "failed": [*failed],
            "tried without success": self._dropped[-2:],
        }
        model = str(getattr(self._llm, "model", "") or type(self._llm).__name__)
        messages = (Message(Role.SYSTEM, self._prompt), Message(Role.USER, dump_json(facts)))
        try:
            reply = await self._llm.complete(LlmRequest(model, messages, output_schema=_schema(texts)))
        except LlmError:
            return None
        found = find_json_object(reply.content)
        return None if found is None else _read(found, texts)


def _schema(texts: AgentTexts) -> dict[str, Any]:
    name = {"type": "string", "enum": [*texts.tools] or [""]}
    tool = _closed({"name": name, "description": {"type": "string"}})
    return _closed({"instructions": {"type": "string"}, "tools": {"type": "array", "items": tool}})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _read(found: Mapping[str, Any], texts: AgentTexts) -> AgentTexts | None:
    proposed, items = found.get("instructions"), found.get("tools")
    new = proposed.strip() if isinstance(proposed, str) else ""
    tools = dict(texts.tools)
    for item in filter(is_object, items if is_array(items) else ()):
        name, description = str(item.get("name")), item.get("description")
        if name in tools and isinstance(description, str):
            tools[name] = description.strip() or tools[name]
    instructions = texts.instructions if texts.instructions is None else new or texts.instructions
    return AgentTexts(instructions, tools)


def _diff(own: AgentTexts, best: AgentTexts) -> str:
    """The changed texts as a unified diff, with one part for each text."""
    before = {"instructions": own.instructions or "", **{f"tool {k}": v for k, v in own.tools.items()}}
    after = {"instructions": best.instructions or "", **{f"tool {k}": v for k, v in best.tools.items()}}
    lines: list[str] = []
    for name, text in before.items():
        pair = (text.splitlines(), after[name].splitlines())
        lines += unified_diff(*pair, fromfile=name, tofile=f"{name} (improved)", lineterm="")
    return "\n".join(lines)


def improve_sync(agent: Agent[Any, Any], cases: Iterable[Case], **options: Any) -> Improvement:
    """Synchronous version of `improve()`."""
    return asyncio.run(improve(agent, cases, **options))
