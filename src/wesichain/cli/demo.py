"""The demo: a question for real tools, and a task before and after a correction; a local model, no key."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from wesichain.agent import Agent
from wesichain.core import EventSink, Message, Role, StrategySource, ToolCall
from wesichain.llm.local import LocalLlm
from wesichain.policy import Budget
from wesichain.tools import ToolError, tool
from wesichain.trace import Recorder, load

QUESTION, ANSWER = "How many lamps did Cleo order?", "5"

# No description names the services of the warehouse. `python -m bench.demo_margins` measures how reliably the
# local models follow the sentence; a wording with a margin below 0.9 is not used.
ORDERS = ("A17", "B23")
SENTENCE, SERVICE = "ship: for express delivery the service is EXP-24.", "EXP-24"
_SERVICES = (SERVICE, "ECO-72")


def task_of(order: str) -> str:
    return f"Ship order {order} by express."


class Office:
    """A folder with a database of orders and parcels, and a few notes."""

    def __init__(self, folder: Path) -> None:
        self._database = folder / "shop.db"
        self._notes = folder / "notes"
        self._notes.mkdir()
        for name, text in _NOTES.items():
            (self._notes / name).write_text(text, encoding="utf-8", newline="\n")
        with closing(sqlite3.connect(self._database)) as shop, shop:
            shop.execute("CREATE TABLE orders (customer TEXT, item TEXT, quantity INTEGER, price REAL)")
            shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", _ORDERS)
            shop.execute("CREATE TABLE parcels (number TEXT, service TEXT)")

    @tool(effect="pure")
    def query_orders(self, sql: str) -> list[list[Any]]:
        """Run one SELECT on the table orders(customer, item, quantity, price).

        Args:
            sql: The SELECT statement.
        """
        with closing(sqlite3.connect(f"{self._database.as_uri()}?mode=ro", uri=True)) as shop:
            try:
                return [list(row) for row in shop.execute(sql).fetchmany(50)]
            except sqlite3.Error as error:
                raise ToolError(
                    f"SQLite says: {error}; the columns are customer, item, quantity, price"
                ) from error

    @tool(effect="pure")
    def search_notes(self, word: str) -> list[str]:
        """Search the office's notes for a word: deployments, holidays, people, the network.

        Args:
            word: The word to look for.
        """
        return [
            f"{path.name}: {line}"
            for path in sorted(self._notes.iterdir())
            for line in path.read_text(encoding="utf-8").splitlines()
            if word.casefold() in line.casefold()
        ]

    @tool(effect="once")
    def ship(self, order: str, service: str) -> str:
        """Send an order to its customer.

        Args:
            order: The order's number.
            service: How it is sent.
        """
        if service not in _SERVICES:
            raise ToolError(f"there is no service {service!r}")
        with closing(sqlite3.connect(self._database)) as shop, shop:
            shop.execute("INSERT INTO parcels VALUES (?, ?)", (order, service))
        return f"order {order} is on its way"

    def service_of(self, order: str) -> str:
        """The service by which an order was sent; empty if it was not sent."""
        with closing(sqlite3.connect(self._database)) as shop:
            row = shop.execute("SELECT service FROM parcels WHERE number = ?", (order,)).fetchone()
        return str(row[0]) if row else ""

    def agent(self, model: str, *, events: Sequence[EventSink] = ()) -> Agent[Any, str]:
        """An agent with two tools. A local model, which is small, gets examples of their use."""
        tools = [self.query_orders, self.search_notes]
        llm = _llm(model, _EXAMPLES)
        return Agent(llm, tools=tools, budget=Budget(steps=6), on_limit="partial", events=events)

    def clerk(
        self, model: str, playbook: StrategySource | None = None, *, events: Sequence[EventSink] = ()
    ) -> Agent[Any, str]:
        """An agent that ships orders, with no instructions but the tools' descriptions and a playbook."""
        return Agent(
            _llm(model),
            tools=[self.ship, self.search_notes],
            budget=Budget(steps=3),
            on_limit="partial",
            playbook=playbook,
            events=events,
        )


class Correction:
    """A playbook, and the recording of the run that is corrected."""

    def __init__(self, folder: Path) -> None:
        from wesichain.learning import Playbook  # slow to import

        self._runs = folder / "runs"
        self.recorder = Recorder(self._runs)
        self.playbook = Playbook.open(folder / "playbook")

    def learn(self, sentence: str) -> None:
        """Add the owner's correction of the run to the playbook."""
        from wesichain.learning import Feedback, Learner

        self.recorder.close()
        (run,) = self._runs.glob("*.jsonl")
        learner = Learner(playbook=self.playbook)
        learner.submit(load(run), feedback=Feedback(label=False, why=sentence, by="owner"))
        asyncio.run(learner.drain())

    def close(self) -> None:
        self.recorder.close()
        self.playbook.close()


def _llm(model: str, examples: tuple[Message, ...] = ()) -> LocalLlm | str:
    provider, _, name = model.partition(":")
    return LocalLlm(name, examples=examples, max_tokens=200) if provider == "local" and name else model


_ORDERS = [
    ("Ann", "lamp", 3, 24.0),
    ("Ben", "chair", 2, 80.0),
    ("Ann", "desk", 1, 210.0),
    ("Cleo", "lamp", 5, 24.0),
]
_NOTES = {
    "deploy.md": "Deployments happen on Tuesdays.\nThe person on call is Mara.\n",
    "holidays.md": "The office is closed from 24 December to 1 January.\n",
    "network.md": "The guest network is called 'harbour'.\n",
}


def _question(question: str) -> Message:
    return Message(Role.USER, question)


def _call(thought: str, name: str, result: str, **args: str) -> tuple[Message, Message]:
    return Message(Role.ASSISTANT, thought, tool_calls=(ToolCall("", name, args),)), Message(
        Role.TOOL, result
    )


def _answer(text: str) -> Message:
    return Message(Role.ASSISTANT, text, reasoning="Found, so answer.")


_EXAMPLES = (
    _question("How many pens did Zoe order?"),
    *_call(
        "Get the quantity from orders.",
        "query_orders",
        "[[31]]",
        sql="SELECT quantity FROM orders WHERE customer = 'Zoe' AND item = 'pen'",
    ),
    _answer("Zoe ordered 31 pens."),
    _question("What colour is the cat?"),
    *_call("Search the notes for the cat.", "search_notes", '["cat.md: The cat is black."]', word="cat"),
    _answer("The cat is black."),
)
