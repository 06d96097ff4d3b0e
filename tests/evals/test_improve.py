"""Improving: texts are rewritten from failed runs, tested on cases that the rewriter never sees."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from wesichain.agent import Agent
from wesichain.core import LlmRequest, LlmResponse, Message, Role, Usage
from wesichain.core.internal import dump_json
from wesichain.errors import ConfigError
from wesichain.evals import Case, Improvement, improve, improve_sync
from wesichain.evals.improvement import AgentTexts, RewrittenLlm, halves
from wesichain.policy import Budget
from wesichain.testing import FunctionLlm, ScriptedLlm, calls
from wesichain.testing.models import Reply
from wesichain.tools import tool

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
        self.schema = request.output_schema
        reply = self._replies.pop(0) if self._replies else {"instructions": "", "tools": []}
        return LlmResponse(content=reply if isinstance(reply, str) else dump_json(reply))


def agent(instructions: str | None = "You are a clerk.") -> Agent[Any, str]:
    return Agent(FunctionLlm(clerk), tools=[pay], instructions=instructions)


def proposal(instructions: str = "", **tools: str) -> dict[str, Any]:
    return {
        "instructions": instructions,
        "tools": [{"name": name, "description": text} for name, text in tools.items()],
    }


BETTER = [
    pytest.param(
        "You are a clerk.",
        proposal(f"You are a clerk. {RULE}"),
        f"+You are a clerk. {RULE}",
        id="instructions",
    ),
    pytest.param(None, proposal(RULE), f"+{RULE}", id="an-agent-without-instructions"),
    pytest.param("You are a clerk.", proposal(pay=f"Pay. {RULE}"), f"+Pay. {RULE}", id="a-tools-description"),
]


@pytest.mark.parametrize(("own", "reply", "changed"), BETTER)
async def test_texts_that_help_are_found_and_tested(
    own: str | None, reply: dict[str, Any], changed: str
) -> None:
    rewriter = Rewriter(proposal("Be kind."), reply)
    subject = agent(own)
    found = await improve(subject, CASES, llm=rewriter)
    assert (found.before, found.after, found.lift, found.passed) == (0.0, 1.0, 1.0, True)
    assert found.low > 0.9
    assert changed in found.diff.splitlines()
    assert subject.fixed_instructions == own  # the agent is as it was
    assert (await subject.run("Pay 3 euros")).output == "paid 3"


async def test_the_rewriter_sees_failed_runs_and_no_held_out_case() -> None:
    rewriter = Rewriter(proposal("Be kind."), proposal(RULE))
    await improve(agent(), CASES, llm=rewriter)
    _, held = halves(CASES)
    shown = "".join(rewriter.seen)
    facts = json.loads(rewriter.seen[0])
    first, *rest = facts.pop("failed")
    number = int(first["task"].split()[1])
    assert first == {
        "task": f"Pay {number} euros",
        "calls": [f'pay({{"amount":{number}}})', f'returned "paid {number}"'],
        "answer": f'"paid {number}"',
        "why": f"expected: 'paid {number}' is not 'paid {number}00'",
    }
    assert len(rest) == 5
    tools = {"pay": "Pay an amount."}
    assert facts == {"instructions": "You are a clerk.", "tools": tools, "tried without success": []}
    schema = json.dumps(rewriter.schema)
    assert schema.count('"additionalProperties": false') == schema.count('"type": "object"') == 2
    assert not [case.task for case in held if f'"{case.task}"' in shown]


async def test_the_rewriter_sees_what_did_not_help() -> None:
    rewriter = Rewriter(proposal("Be kind."), proposal("Be brief."), proposal(RULE))
    await improve(agent(), CASES, llm=rewriter)
    tried = [json.loads(one)["tried without success"] for one in rewriter.seen]
    assert tried == [[], ["Be kind."], ["Be kind.", "Be brief."]]


WORSE = [
    pytest.param([], id="no-proposal"),
    pytest.param(["nonsense"], id="a-reply-that-cannot-be-read"),
    pytest.param([{"tools": ["pay", {"name": ["pay"], "description": RULE}]}], id="no-name-of-a-tool"),
    pytest.param([proposal("Be kind."), proposal("Be brief.")], id="rewritings-that-do-not-help"),
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

    found = await improve(Agent(FunctionLlm(parrot), instructions="x"), CASES, llm=Rewriter(proposal(RULE)))
    assert (found.lift, found.passed) == (0.0, False)
    assert found.diff


@pytest.mark.parametrize(
    ("budget", "runs"),
    [
        (63, 32),  # 12 to learn from, 20 held out; for a rewriting, 12 and twice 20 must be left
        (64, 44),
        (76, 56),
        (Budget(tokens=1), 32),
        (Budget(tokens=40 * 65), 44),
        (Budget(seconds=1e-6), 32),
        (Budget(), 176),
    ],
)
async def test_the_budget_bounds_the_runs(budget: Budget | int, runs: int) -> None:
    def spending(request: LlmRequest) -> Reply:
        reply = clerk(request)
        return replace(reply, usage=Usage(30, 10)) if isinstance(reply, LlmResponse) else reply

    replies = [proposal(f"Try {number}.") for number in range(50)]
    subject = Agent(FunctionLlm(spending), tools=[pay])
    assert (await improve(subject, CASES, llm=Rewriter(*replies), budget=budget)).runs == runs


def test_too_few_cases_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^improve needs at least 4 cases, half of which are held out; got 3$"
    ):
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
