"""Improving: texts are rewritten from failed runs, tested on cases that the rewriter never sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, wesichain
from wesichain.agent import Agent
from wesichain.core import LlmRequest, LlmResponse, Message, Role
from wesichain.core.internal import dump_json
from wesichain.errors import ConfigError
from wesichain.evals import Case, Improvement, improve, improve_sync
from wesichain.evals.improving import AgentTexts, RewrittenLlm, halves
from wesichain.policy import Budget
from wesichain.testing import FunctionLlm, ScriptedLlm, calls
from wesichain.testing.models import Reply
from wesichain.tools import tool

__all__ = ["wesichain"]  # a fixture
CASES = [
    Case(f"c{number}", f"Pay {number} euros", expected=f"paid {number * 100}") for number in range(1, 41)
]
RULE = "Amounts are in cents: 1 euro is 100."


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def clerk(request: LlmRequest) -> Reply:
    """Pays in euros, unless the instructions or the tool's description say cents."""
    if request.messages[-1].role is Role.TOOL:
        return request.messages[-1].text
    system = next((one.text for one in request.messages if one.role is Role.SYSTEM), "")
    texts = system + "".join(one.description for one in request.tools)
    euros = int(request.messages[-1].text.split()[1])
    return calls(("pay", {"amount": euros * 100 if "cents" in texts else euros}))


class Rewriter:
    """Proposes these texts, one after the other, and keeps what it was shown."""

    def __init__(self, *replies: dict[str, Any] | str) -> None:
        self.seen: list[str] = []
        self._replies = list(replies)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.seen.append(request.messages[-1].text)
        reply = self._replies.pop(0) if self._replies else {"instructions": "", "tools": []}
        return LlmResponse(content=reply if isinstance(reply, str) else dump_json(reply))


def agent(instructions: str | None = "You are a clerk.") -> Agent[Any, str]:
    return Agent(FunctionLlm(clerk), tools=[pay], instructions=instructions)


def told(instructions: str = "", **tools: str) -> dict[str, Any]:
    return {
        "instructions": instructions,
        "tools": [{"name": name, "description": text} for name, text in tools.items()],
    }


BETTER = [
    pytest.param(
        "You are a clerk.", told(f"You are a clerk. {RULE}"), f"+You are a clerk. {RULE}", id="instructions"
    ),
    pytest.param(None, told(RULE), f"+{RULE}", id="an-agent-without-instructions"),
    pytest.param("You are a clerk.", told(pay=f"Pay. {RULE}"), f"+Pay. {RULE}", id="a-tools-description"),
]


@pytest.mark.parametrize(("own", "reply", "changed"), BETTER)
async def test_texts_that_help_are_found_and_tested(
    own: str | None, reply: dict[str, Any], changed: str
) -> None:
    rewriter = Rewriter(told("Be kind."), reply)
    subject = agent(own)
    found = await improve(subject, CASES, llm=rewriter)
    assert (found.before, found.after, found.lift, found.passed) == (0.0, 1.0, 1.0, True)
    assert found.low > 0.9
    assert changed in found.diff.splitlines()
    assert subject.fixed_instructions == own  # the agent is as it was
    assert (await subject.run("Pay 3 euros")).output == "paid 3"


async def test_the_rewriter_sees_failed_runs_and_no_held_out_case() -> None:
    rewriter = Rewriter(told("Be kind."), told(RULE))
    await improve(agent(), CASES, llm=rewriter)
    _, held = halves(CASES)
    shown = "".join(rewriter.seen)
    assert "pay({" in shown
    assert "is not" in shown
    assert not [case.task for case in held if f'"{case.task}"' in shown]


async def test_the_rewriter_sees_what_did_not_help() -> None:
    rewriter = Rewriter(told("Be kind."), told("Be brief."), told(RULE))
    await improve(agent(), CASES, llm=rewriter)
    tried = [json.loads(one)["tried without success"] for one in rewriter.seen]
    assert tried == [[], ["Be kind."], ["Be kind.", "Be brief."]]


WORSE = [
    pytest.param([], id="no-proposal"),
    pytest.param(["nonsense"], id="a-reply-that-cannot-be-read"),
    pytest.param([told("Be kind."), told("Be brief.")], id="rewritings-that-do-not-help"),
]


@pytest.mark.parametrize("replies", WORSE)
async def test_without_a_better_text_nothing_is_proposed(replies: list[Any]) -> None:
    found = await improve(agent(), CASES, llm=Rewriter(*replies))
    own = Improvement("You are a clerk.", {"pay": "Pay an amount."}, 0, 0, 0, 0, 0, "", runs=found.runs)
    assert found == own


async def test_a_text_that_only_fits_what_it_was_made_from_fails_the_gate() -> None:
    learn, _ = halves(CASES)
    known = {case.task for case in learn}

    def parrot(request: LlmRequest) -> Reply:
        system = next((one.text for one in request.messages if one.role is Role.SYSTEM), "")
        task = request.messages[-1].text
        return f"paid {int(task.split()[1]) * 100}" if "cents" in system and task in known else "no"

    found = await improve(Agent(FunctionLlm(parrot), instructions="x"), CASES, llm=Rewriter(told(RULE)))
    assert (found.lift, found.passed) == (0.0, False)
    assert found.diff


@pytest.mark.parametrize(("budget", "most"), [(60, 60), (Budget(tokens=1), 200), (Budget(seconds=1e-6), 60)])
async def test_the_budget_bounds_the_runs(budget: Budget | int, most: int) -> None:
    replies = [told(f"Try {number}.") for number in range(50)]
    found = await improve(agent(), CASES, llm=Rewriter(*replies), budget=budget)
    assert found.runs <= most


def test_too_few_cases_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 4 cases"):
        improve_sync(agent(), CASES[:3])


@pytest.mark.parametrize(
    ("own", "new", "given", "seen"),
    [
        pytest.param("Own.", "New.", "Own.", "New.", id="instructions-of-its-own"),
        pytest.param("Own.", "New.", "Own.\n\nAdvice.", "New.\n\nAdvice.", id="what-follows-them-stays"),
        pytest.param("Own.", "New.", "Other.", "New.\n\nOther.", id="before-what-somebody-else-says"),
        pytest.param("Own.", "", "Own.", "Own.", id="nothing-new"),
        pytest.param(None, None, "Own.", "Own.", id="made-by-a-function"),
    ],
)
async def test_the_model_sees_the_new_instructions_in_place_of_the_old(
    own: str | None, new: str | None, given: str, seen: str
) -> None:
    llm = ScriptedLlm(["ok"])
    rewritten = RewrittenLlm(llm, AgentTexts(own, {}), AgentTexts(new, {}))
    await rewritten.complete(LlmRequest("m", (Message(Role.SYSTEM, given), Message(Role.USER, "go"))))
    assert [one.text for one in llm.requests[0].messages] == [seen, "go"]


@pytest.mark.parametrize("yes", [True, False])
def test_nothing_is_written_without_a_yes(wesichain: Command, tmp_path: Path, yes: bool) -> None:
    source = (
        "from tests.evals.test_improve import RULE, clerk, pay, told\n"
        "from wesichain import Agent\n"
        "from wesichain.core.internal import dump_json\n"
        "from wesichain.testing import FunctionLlm\n"
        "def reply(request):\n"
        "    return dump_json(told(RULE)) if request.output_schema else clerk(request)\n"
        "agent = Agent(FunctionLlm(reply), tools=[pay], instructions='You are a clerk.')\n"
    )
    (tmp_path / "mine.py").write_text(source)
    rows = [{"id": case.id, "task": case.task, "expected": case.expected} for case in CASES]
    (tmp_path / "cases.jsonl").write_text("".join(f"{dump_json(row)}\n" for row in rows))
    out = tmp_path / "improved.json"
    command = (
        "improve",
        str(tmp_path / "cases.jsonl"),
        "--agent",
        f"{tmp_path}/mine.py:agent",
        "-o",
        str(out),
    )
    done = wesichain(*command, *(["--yes"] if yes else []))
    assert done.status == 0, done.err
    assert "held-out cases: 0% -> 100%" in done.out
    assert f"+{RULE}" in done.out
    assert out.exists() is yes
