"""The demo: three real tools, three questions, a local model, no key."""

from __future__ import annotations

import ast
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from wesichain.agent import Agent
from wesichain.policy import Budget
from wesichain.tools import ToolError, tool

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
}


@tool(effect="pure")
async def calculate(expression: str) -> int | float:
    """Work out an arithmetic expression.

    Args:
        expression: Numbers with + - * / // % ** and brackets, such as "17 * 23".
    """
    if len(expression) > 200:
        raise ToolError("the expression is too long: 200 characters at most")
    try:
        tree = ast.parse(expression, mode="eval")
        value: int | float = _value(tree.body, depth=0)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, MemoryError, RecursionError) as error:
        raise ToolError(f"cannot work out {expression!r}: {error}") from error
    return value


def _value(node: ast.AST, *, depth: int) -> Any:
    """Walks the expression: nothing is evaluated that is not a number or one of the operators."""
    if depth > 40:
        raise ValueError("too many brackets")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth=depth + 1)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            first, second = _value(left, depth=depth + 1), _value(right, depth=depth + 1)
            if isinstance(op, ast.Pow) and (abs(first) > 10_000 or abs(second) > 64):
                raise ValueError("the power is too large")
            return _OPERATORS[type(op)](first, second)
        case _:
            raise ValueError(f"{type(node).__name__} is not arithmetic")


_ORDERS = [
    ("Ann", "lamp", 3, 24.0),
    ("Ben", "chair", 2, 80.0),
    ("Ann", "desk", 1, 210.0),
    ("Cleo", "lamp", 5, 24.0),
]


@tool(effect="pure")
def query_orders(sql: str) -> list[list[Any]]:
    """Run one SELECT on the table orders(customer, item, quantity, price).

    Args:
        sql: The SELECT statement.
    """
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE orders (customer TEXT, item TEXT, quantity INTEGER, price REAL)")
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", _ORDERS)
        database.execute("PRAGMA query_only = ON")
        try:
            return [list(row) for row in database.execute(sql).fetchmany(50)]
        except sqlite3.Error as error:
            raise ToolError(f"SQLite says: {error}") from error


_FILES = {
    "deploy.md": "Deployments happen on Tuesdays. The person on call is Mara.",
    "holidays.md": "The office is closed from 24 December to 1 January.",
    "wifi.md": "The guest network is called 'harbour'.",
}


@tool(effect="pure")
async def search_files(word: str) -> str:
    """Search the notes for a word and give the lines that hold it.

    Args:
        word: The word to look for.
    """
    wanted = word.casefold()
    found = [text for name, text in _FILES.items() if wanted in text.casefold() or wanted in name]
    return "\n".join(found) or f"no note has the word {word!r}"


QUESTIONS = (
    ("What is 17 * 23?", calculate),
    ("What is the sum of quantity of the item 'lamp' in the table orders?", query_orders),
    ("When do deployments happen? Search the notes for 'deployments'.", search_files),
)


def questions(model: Any) -> Iterator[tuple[str, Agent[str]]]:
    """Each question with an agent that has the three tools."""
    agent = Agent(
        model, tools=[calculate, query_orders, search_files], budget=Budget(steps=6), on_limit="partial"
    )
    for question, _ in QUESTIONS:
        yield question, agent
