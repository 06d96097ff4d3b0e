"""Conventions of real APIs are learned from words; ordinary errors teach no rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.draws import sampled
from tests.learning.kit import words
from wesichain.agent import Agent
from wesichain.core import Role
from wesichain.core.internal import dump_json
from wesichain.learning import Feedback, Learner, Playbook
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import JsonTool

# tool, parameter, value in the run's task, what an owner says, what a model makes of it in words of its own
CONVENTIONS = [
    ("create_event", "start", "3 May at 9", "start is RFC 3339, such as 2027-05-03T09:00:00Z.", "Write start as a full date and time with a zone."),
    ("query_metrics", "since", "3 May", "since is seconds since 1970, not a date.", "Give since as a count of seconds from the epoch."),
    ("send_sms", "to", "0151 1234", "to is E.164: +49 and no leading zero.", "Begin to with a plus and the country prefix, no blanks."),
    ("create_order", "country", "Germany", "country is the ISO code of two letters: DE.", "Give country as its short form in capitals."),
    ("charge", "currency", "euros", "currency is the ISO 4217 code in lower case: eur.", "Give currency as a code of three small letters."),
    ("charge", "amount", "12 euros", "amount is in the smallest unit: 12 euros are 1200.", "Multiply amount by the subunits of the currency."),
    ("get_order", "order_id", "W2378156", "order_id keeps its mark: #W2378156.", "Put a hash sign before order_id."),
    ("get_user", "user_id", "Mia Li", "user_id is first_last_number in lower case.", "Look user_id up with find_user before using it."),
    ("set_status", "status", "finished", "status is one of open, in_progress, closed.", "Choose status from the states that the board knows."),
    ("search", "lang", "English", "lang is a BCP 47 tag such as en-GB.", "Give lang as a language tag with its region."),
    ("plan_route", "unit", "miles", "unit is imperial or metric.", "Give unit as the name of a system of measures."),
    ("book_flight", "cabin", "business class", "cabin is basic_economy, economy or business.", "Write cabin with underscores and small letters."),
    ("weather", "coords", "Oslo", "coords is longitude before latitude.", "Put the longitude first in coords."),
    ("upload", "digest", "the hash", "digest is base64 of the SHA-256, not hex.", "Encode digest in base sixty-four rather than in hex."),
    ("list_items", "page", "the first page", "page is counted from 0.", "Count page from zero."),
    ("list_items", "cursor", "the next ones", "cursor is the value of next from the reply before.", "Pass as cursor the token that came with the last reply."),
    ("resize", "colour", "red", "colour is hex with a hash: #ff0000.", "Give colour as six hex digits behind a hash sign."),
    ("set_timer", "duration", "an hour and a half", "duration is ISO 8601: PT1H30M.", "Write duration with a P and a T as the standard for durations says."),
    ("share_file", "role", "may edit", "role is reader, commenter or writer.", "Say role as the kind of access that the service lists."),
    ("add_dns", "name", "shop.test", "name ends with a dot.", "End name with a full stop."),
    ("find_ticket", "query", "tickets of Ann", "query is JQL: assignee = ann.", "Write query in the language of the tracker."),
    ("transfer", "iban", "DE89 3704", "iban has no blanks.", "Take the blanks out of iban."),
]  # fmt: skip  # a row a convention
ROWS = [pytest.param(row, id=f"{row[0]}-{row[1]}") for row in CONVENTIONS]
each_convention = pytest.mark.parametrize("row", sampled(ROWS, 3))


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Playbook]:
    with Playbook.open(tmp_path / "playbook", words()) as opened:
        yield opened


def refusing(name: str, parameter: str, error: str) -> JsonTool:
    """A tool with one parameter that refuses every call."""

    def invoke(args: Any) -> Any:
        raise ValueError(error)

    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return JsonTool(name, "Does what its name says.", schema, invoke)


async def prompt_of(book: Playbook, tool: JsonTool, task: str) -> str:
    llm = ScriptedLlm(["done"])
    await Agent(llm, tools=[tool], playbook=book, domain="shop").run(task)
    return "\n".join(message.text for message in llm.requests[0].messages if message.role is Role.SYSTEM)


async def run_and_learn(
    book: Playbook, tool: JsonTool, parameter: str, *, task: str, feedback: Feedback
) -> None:
    value = task.rsplit(": ", maxsplit=1)[-1]
    script = ScriptedLlm([calls((tool.name, {parameter: value})), "It was refused."])
    result = await Agent(script, tools=[tool], playbook=book, domain="shop").run(task)
    learner = Learner(playbook=book)
    learner.submit(result, feedback=feedback, domain="shop")
    await learner.drain()


@pytest.mark.sampled
@each_convention
async def test_an_owners_words_teach_it_at_once(book: Playbook, row: tuple[str, ...]) -> None:
    name, parameter, value, sentence, _ = row
    tool = refusing(name, parameter, f"invalid {parameter}")
    feedback = Feedback(label=False, why=sentence, by="owner")
    task = f"Please do it with this: {value}"
    await run_and_learn(book, tool, parameter, task=task, feedback=feedback)
    assert sentence in await prompt_of(book, tool, "Please do it with this: another")
    assert book.bullets("shop")[0].tool_sequence == (name,)


@pytest.mark.sampled
@each_convention
async def test_a_models_words_teach_it_after_two_runs(book: Playbook, row: tuple[str, ...]) -> None:
    name, parameter, value, sentence, lesson = row
    tool = refusing(name, parameter, f"invalid {parameter}")
    found = refusing("find_user", "mail", "no")
    rule = dump_json({"tool": name, "parameter": parameter, "about": "format", "rule": lesson})
    for at in range(2):
        script = ScriptedLlm([calls((name, {parameter: value})), "It was refused."])
        task = f"Please do it {'now' if at else 'soon'} with this: {value}"
        result = await Agent(script, tools=[tool, found], playbook=book, domain="shop").run(task)
        learner = Learner(playbook=book, llm=ScriptedLlm([rule]))
        learner.submit(result, feedback=Feedback(label=False, why=sentence), domain="shop")
        await learner.drain()
    assert lesson in await prompt_of(book, tool, "Please do it with this: another")


# --- ordinary errors ----------------------------------------------------------------------------------

ERRORS = [
    "timeout after 30s", "HTTP 503 Service Unavailable", "connection reset by peer (10.0.0.7:5432)",
    "order A17 not found", "user 4711 is not allowed to do this",
    "rate limit: 60 requests per minute, retry in 12s", "disk full on /dev/sda1",
    "ETIMEDOUT 192.168.0.1:443", "deadlock detected, process 3127 waits for ShareLock",
    "SSL: CERTIFICATE_VERIFY_FAILED (_ssl.c:1007)", "index 12 out of range for list of 8",
    "KeyError: 'B-07'", "division by zero", "quota of 5GB exceeded",
    "the warehouse is closed until 2027-01-02", "stock of SKU-9921 is 0",
    "card ending in 4242 was declined (do_not_honor)", "version conflict: expected 3, found 4",
    "maintenance window 22:00-23:00 UTC", "no route to host h2o-4", "parcel 1Z999AA1 is in transit",
    "E4029: internal", "retry budget exhausted after 3 attempts", "out of memory: killed process 881",
    "payload of 2MB is over 1MB", "token expired at 1700000000", "room R2D2 is taken on 14.03.2027",
    "locked by ann since 09:15", "unknown host api-v2.test", "exit status 137", "feature flag X9 is off",
    "duplicate key value 'C3' in orders", "table T_77 does not exist", "worker w-3f2a died",
    "circuit breaker open for 45s", "checksum 9f86d081 differs", "insufficient funds: 12.50 EUR",
    "port 8080 is in use", "session 77aa is gone", "please try again later",
]  # fmt: skip


def test_there_are_22_conventions_and_40_errors() -> None:
    assert (len(CONVENTIONS), len(set(ERRORS))) == (22, 40)


@pytest.mark.sampled
@pytest.mark.parametrize("error", sampled(ERRORS, 4))
async def test_an_ordinary_error_teaches_no_rule(book: Playbook, error: str) -> None:
    tool = refusing("ship", "value", error)
    for at in range(7):
        bad = Feedback(label=False, why=error)
        await run_and_learn(book, tool, "value", task=f"Ship it {at}: A17", feedback=bad)
    assert [item for item in book.bullets("shop") if item.is_visible or item.helpful_count] == []
    assert await prompt_of(book, tool, "Ship it: B4") == ""
