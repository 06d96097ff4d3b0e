"""How well and how fast local models answer questions with tools: constrained calls against free text ReAct.

    python -m bench.local_models run --model smollm2-135m --mode constrained
    python -m bench.local_models report

The questions (`local_questions.jsonl`) are held out: prompts and tools were tried on others. Answers are
kept one a line in bench/results, so that a run can be cut and taken up again; `report` writes the table
into docs/local-models.md.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import datetime
import json
import math
import operator
import os
import platform
import re
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import psutil

from wesichain.agent import Agent
from wesichain.core import Message, Role, ToolCall, ToolCallingLlm
from wesichain.core.internal import to_plain
from wesichain.errors import RunFailedError, ToolError
from wesichain.llm.local import LocalLlm
from wesichain.llm.react_text import TextReAct
from wesichain.policy import Budget

HERE = Path(__file__).parent
QUESTIONS = HERE / "local_questions.jsonl"
RESULTS = HERE / "results" / "local_models.jsonl"
DOC = HERE.parent / "docs" / "local-models.md"

# --- tools ----------------------------------------------------------------------------------------

Unit = Literal["km", "mile", "meter", "foot", "kg", "pound", "liter", "gallon", "celsius", "fahrenheit"]

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FACTORS = {"km": 1000.0, "mile": 1609.344, "meter": 1.0, "foot": 0.3048}
_MASSES = {"kg": 1.0, "pound": 0.45359237}
_VOLUMES = {"liter": 1.0, "gallon": 3.785411784}


def calculator(expression: str) -> float:
    """Arithmetic: evaluate an expression such as (3 + 4) * 2."""
    if len(expression) > 200:
        raise ToolError("the expression is too long")
    try:
        value = _evaluate(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ToolError(f"not an arithmetic expression: {error}") from error
    return round(value, 6)


def _evaluate(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if abs(value) < 1e15:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            one, two = _evaluate(left), _evaluate(right)
            if isinstance(op, ast.Pow) and (abs(two) > 16 or abs(one) > 1e6):
                raise ToolError("the exponent is too large")
            return float(_OPERATIONS[type(op)](one, two))
        case _:
            raise ToolError("only numbers, + - * / % ** and brackets are understood")


class Office:
    """A shop's database and a folder of notes."""

    def __init__(self, folder: Path) -> None:
        self._notes = folder / "notes"
        self._notes.mkdir()
        for name, text in NOTES.items():
            (self._notes / f"{name}.txt").write_text(text, encoding="utf-8")
        self._database = folder / "shop.db"
        with sqlite3.connect(self._database) as shop:
            shop.execute("CREATE TABLE products (name TEXT, price REAL, stock INTEGER)")
            shop.execute("CREATE TABLE orders (id INTEGER, customer TEXT, product TEXT, quantity INTEGER)")
            shop.executemany("INSERT INTO products VALUES (?, ?, ?)", PRODUCTS)
            shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
        shop.close()

    def shop_database(self, sql: str) -> list[list[Any]]:
        """Run a SELECT on products(name, price, stock) or orders(id, customer, product, quantity)."""
        shop = sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)
        try:
            shop.set_progress_handler(lambda: 1, 1_000_000)
            return [list(row) for row in shop.execute(sql).fetchmany(20)]
        except sqlite3.Error as error:
            raise ToolError(f"the database says: {error}") from error
        finally:
            shop.close()

    def search_notes(self, word: str) -> list[str]:
        """Search the notes for a word: they tell about people, codes, trips, times, places and recipes."""
        return [
            f"{path.name}: {line}"
            for path in sorted(self._notes.iterdir())
            for line in path.read_text(encoding="utf-8").splitlines()
            if word.casefold() in line.casefold()
        ][:10]


def days_between(start: datetime.date, end: datetime.date) -> int:
    """Count the days from a start date to an end date."""
    return (end - start).days


def add_days(date: datetime.date, days: int) -> str:
    """The date that is a number of days after a date."""
    if abs(days) > 100_000:
        raise ToolError("at most 100,000 days")
    return (date + datetime.timedelta(days=days)).isoformat()


def convert(value: float, unit: Unit, to: Unit) -> float:
    """Convert a value from one unit to another."""
    if (unit, to) == ("celsius", "fahrenheit"):
        return round(value * 9 / 5 + 32, 3)
    if (unit, to) == ("fahrenheit", "celsius"):
        return round((value - 32) * 5 / 9, 3)
    for kind in (_FACTORS, _MASSES, _VOLUMES):
        if unit in kind and to in kind:
            return round(value * kind[unit] / kind[to], 3)
    raise ToolError(f"{unit} cannot become {to}")


PRODUCTS = [
    ("lamp", 24.5, 12),
    ("desk", 180.0, 3),
    ("chair", 75.0, 9),
    ("mug", 6.25, 140),
    ("rug", 95.0, 5),
    ("shelf", 62.0, 7),
    ("clock", 33.0, 20),
]
ORDERS = [
    (1, "Ada", "lamp", 2),
    (2, "Bo", "mug", 12),
    (3, "Ada", "chair", 4),
    (4, "Cy", "desk", 1),
    (5, "Bo", "rug", 1),
    (6, "Dana", "clock", 3),
    (7, "Eli", "shelf", 2),
    (8, "Finn", "lamp", 1),
]
NOTES = {
    "home": "The shed key hangs behind the door.\nThe spare key is under the flower pot.\n"
    "Novak repairs the boiler.\nThe wifi password is bluebird42.\nThe dentist appointment is at 14:30.\n",
    "travel": "The train to Lyon leaves at 07:42.\nHotel Beaulieu costs 84 euros a night.\n"
    "Hotel Miramar costs 96 euros a night.\nThe flight to Porto leaves at gate B17.\n",
    "team": "The printer code is 5521.\nMara leads the billing project.\nThe new intern is called Priya.\n"
    "The team lunch costs 14 euros a person.\nThe office walls will be green.\n"
    "The parking permit costs 45 euros a month.\n",
    "recipes": "The lasagne stays in the oven for 40 minutes.\nOne cake needs 350 grams of flour.\n",
}

# --- examples, shown to the constrained model ------------------------------------------------------


def solved(question: str, *calls: tuple[str, dict[str, Any], str], answer: str) -> list[Message]:
    messages = [Message(Role.USER, question)]
    for name, args, result in calls:
        messages.append(Message(Role.ASSISTANT, tool_calls=(ToolCall("", name, args),)))
        messages.append(Message(Role.TOOL, result))
    return [*messages, Message(Role.ASSISTANT, answer)]


EXAMPLES = {
    "office": [
        *solved(
            "How many pens are in stock?",
            ("shop_database", {"sql": "SELECT stock FROM products WHERE name = 'pen'"}, "[[31]]"),
            answer="31 pens are in stock.",
        ),
        *solved(
            "What do 5 pens cost?",
            ("shop_database", {"sql": "SELECT price FROM products WHERE name = 'pen'"}, "[[1.5]]"),
            ("calculator", {"expression": "5 * 1.5"}, "7.5"),
            answer="5 pens cost 7.5.",
        ),
        *solved(
            "What colour is the cat?",
            ("search_notes", {"word": "cat"}, '["home.txt: The cat is black."]'),
            answer="The cat is black.",
        ),
    ],
    "travel": [
        *solved(
            "How many feet are 3 meters?",
            ("convert", {"value": 3, "unit": "meter", "to": "foot"}, "9.843"),
            answer="3 meters are 9.843 feet.",
        ),
        *solved(
            "Which date is 20 days after 2024-05-05?",
            ("add_days", {"date": "2024-05-05", "days": 20}, '"2024-05-25"'),
            answer="It is 2024-05-25.",
        ),
        *solved(
            "How many minutes are there from 2024-05-01 to 2024-05-03?",
            ("days_between", {"start": "2024-05-01", "end": "2024-05-03"}, "2"),
            ("calculator", {"expression": "2 * 24 * 60"}, "2880"),
            answer="There are 2880 minutes.",
        ),
    ],
}

MODES = ("constrained", "text", "text, examples")

# --- running and judging --------------------------------------------------------------------------


def is_right(output: str, expected: str) -> bool:
    """Whether the answer has the expected number, to three digits, or the expected word."""
    try:
        number = float(expected)
    except ValueError:
        return expected.casefold() in output.casefold()
    found = re.findall(r"-?\d+(?:\.\d+)?", output.replace(",", ""))
    return any(math.isclose(float(one), number, rel_tol=1e-3) for one in found)


def agents(model: str, mode: str, *, folder: Path, threads: int | None) -> dict[str, Agent[Any, str]]:
    office = Office(folder)
    tools: dict[str, Sequence[Callable[..., Any]]] = {
        "office": [calculator, office.shop_database, office.search_notes],
        "travel": [calculator, days_between, add_days, convert],
    }
    made: dict[str, Agent[Any, str]] = {}
    for box, functions in tools.items():
        llm = LocalLlm(model, threads=threads, max_tokens=200, examples=EXAMPLES[box])
        made[box] = Agent(in_mode(mode, llm, EXAMPLES[box]), tools=functions, budget=Budget(steps=6))
    return made


def in_mode(mode: str, llm: LocalLlm, examples: list[Message]) -> ToolCallingLlm:
    match mode:
        case "text":
            return TextReAct(llm)
        case "text, examples":
            return TextReAct(llm, chat=True, examples=examples)
        case _:
            return llm


async def run(arguments: argparse.Namespace) -> None:
    questions = [json.loads(line) for line in arguments.questions.read_text().splitlines()]
    done = {(row["model"], row["mode"], row["id"]) for row in read_results(arguments.results)}
    arguments.results.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, arguments.results.open("a") as results:
        solvers = agents(arguments.model, arguments.mode, folder=Path(folder), threads=arguments.threads)
        for question in questions[:: arguments.every]:
            key = {"model": arguments.model, "mode": arguments.mode, "id": question["id"]}
            if tuple(key.values()) in done:
                continue
            row = {**key, "tools": question["tools"], **await answer(solvers[question["box"]], question)}
            print(json.dumps(row), file=results, flush=True)
            verdict = "ok " if row["ok"] else "BAD"
            print(f"{verdict} {row['seconds']:6.1f} s {question['question']} -> {row['output']}", flush=True)


async def answer(agent: Agent[Any, str], question: dict[str, Any]) -> dict[str, Any]:
    began, worked = time.monotonic(), cpu_seconds()
    try:
        result = await agent.run(question["question"])
        output, outcome = result.output, result.outcome
    except RunFailedError as error:
        output, outcome = "", error.outcome
    calls = [call.name for message in outcome.messages for call in message.tool_calls]
    return {
        "ok": is_right(output, question["answer"]),
        "seconds": round(time.monotonic() - began, 2),
        "cpu": round(cpu_seconds() - worked, 2),
        "output": output[:300],
        "calls": calls,
        "trail": [to_plain(message) for message in outcome.messages if message.role is not Role.SYSTEM],
        "first": bool(calls) and calls[0] == question["tools"][0],
    }


def cpu_seconds() -> float:
    """CPU seconds so far, of this process and the model's."""
    me = psutil.Process()
    return sum(part.cpu_times().user + part.cpu_times().system for part in (me, *me.children()))


# --- the report -----------------------------------------------------------------------------------


def read_results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


FAILURES = ("another tool first", "answered too early", "no answer", "wrong arguments or answer")


def failure(row: dict[str, Any]) -> str | None:
    """The kind of a failure, from the events of the run; None if there was none."""
    if row["ok"]:
        return None
    if not row["output"]:
        return "no answer"
    if not row["first"]:
        return "another tool first"
    if len(row["tools"]) == 2 and row["tools"][1] not in row["calls"][1:]:
        return "answered too early"
    return "wrong arguments or answer"


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| model | mode | one tool | two tools | right first tool | CPU seconds a question | wall seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    failed = [
        "",
        f"| what failed: model | mode | {' | '.join(FAILURES)} |",
        "|---" * (len(FAILURES) + 2) + "|",
    ]
    for model, mode in sorted({(row["model"], row["mode"]) for row in rows}):
        mine = [row for row in rows if (row["model"], row["mode"]) == (model, mode)]
        one = [row["ok"] for row in mine if len(row["tools"]) == 1]
        two = [row["ok"] for row in mine if len(row["tools"]) == 2]
        first = [row["first"] for row in mine]
        work = statistics.median(row["cpu"] for row in mine)
        wall = statistics.median(row["seconds"] for row in mine)
        shares = " | ".join(f"{sum(part)} of {len(part)}" for part in (one, two, first))
        lines.append(f"| {model} | {mode} | {shares} | {work:.1f} | {wall:.0f} |")
        reasons = Counter(map(failure, mine))
        failed.append(f"| {model} | {mode} | {' | '.join(str(reasons[one]) for one in FAILURES)} |")
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    last = f"Measured on {today}, {machine}, shared with other work; seconds are medians. "
    last += "A row that counts fewer than 40 and 20 questions is of a run that was cut."
    return "\n".join([*lines, *failed, "", last])


def report(arguments: argparse.Namespace) -> None:
    text = DOC.read_text(encoding="utf-8")
    begin, end = "<!-- figures -->", "<!-- /figures -->"
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    DOC.write_text(f"{head}{begin}\n{table(read_results(arguments.results))}\n{end}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="How well local models answer questions with tools.")
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--mode", choices=MODES, default="constrained")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--every", type=int, default=1, help="every n-th question alone")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.action == "run":
        asyncio.run(run(arguments))
    else:
        report(arguments)


if __name__ == "__main__":
    main()
