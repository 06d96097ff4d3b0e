"""A random sample of mutants over the whole source, so that the share that is caught says something of what nobody
chose: comparisons turned round, conditions negated, numbers and flags changed, statements left out.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from .coverage import Reached, tests_that_run
from .forks import Sampled
from .table import SOURCE, Mutant

BUDGET = 20.0  # seconds of CPU time that one round of the tests of a mutant may take
_ROUNDS = 6  # of a line that hundreds of tests run, the small ones seldom say what it is for

_TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


def sample(size: int, rooms: Sequence[str] = (), *, seed: int, budget: float = BUDGET) -> Iterator[Sampled]:
    """So many mutants, each in another place, with what to judge them by; the same for the same seed and source."""
    folders = [SOURCE / room for room in rooms] or [SOURCE]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    places = [(path, *place) for path in paths for place in _places(path)]
    for place in random.Random(seed).sample(places, size):
        yield _sampled(*place, budget)


def at(file: str, line: int, *, budget: float = BUDGET) -> Iterator[Sampled]:
    """All mutants of one line, with what to judge them by."""
    for node, text in _places(SOURCE / file):
        if node.lineno == line:
            yield _sampled(SOURCE / file, node, text, budget)


def _sampled(path: Path, node: ast.expr | ast.stmt, text: str, budget: float) -> Sampled:
    """To be judged by the tests that reach it: those first that run little else, then those of its own room."""
    mutant = _mutant(path, node, text)
    reached = tests_that_run(mutant.file, node.lineno)
    small = _first(reached, budget)
    folder = f"tests/{room_of(mutant)}/"
    rest = sorted(reached[len(small) :], key=lambda each: not each.test.startswith(folder))
    rounds = [small]
    while rest and len(rounds) < _ROUNDS:
        rounds.append(_first(rest, budget))
        rest = rest[len(rounds[-1]) :]
    return Sampled(mutant, [[each.test for each in tests] for tests in rounds])


def _first(tests: list[Reached], budget: float) -> list[Reached]:
    """As many as the budget allows, and one at the least."""
    total = accumulate(each.seconds for each in tests)
    return tests[: max(1, sum(spent < budget for spent in total))]


def room_of(mutant: Mutant) -> str:
    """The folder of the source that a mutant is in."""
    return mutant.file.partition("/")[0]


def _mutant(path: Path, node: ast.expr | ast.stmt, text: str) -> Mutant:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    start, end = _offset(lines, node.lineno, node.col_offset), _offset(lines, *_end(node))
    old = source[start:end]
    file = str(path.relative_to(SOURCE))
    name = f"line {node.lineno}: {_short(old)} -> {_short(text)}"
    return Mutant(name, file, source, source[:start] + text + source[end:], ())


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _offset(lines: list[str], line: int, column: int) -> int:
    """The place in the text of a column that `ast` counts in bytes."""
    before = lines[line - 1].encode()[:column].decode()
    return sum(map(len, lines[: line - 1])) + len(before)


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:60]


def _places(path: Path) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What can be changed in a file, and the text that stands there then."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    changed = _changed(node)
                    if changed is not None and isinstance(node, ast.expr | ast.stmt):
                        yield node, changed


def _changed(node: ast.AST) -> str | None:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"{_operand(left)} {_TURNED[type(op)]} {_operand(right)}"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            return "(" + word.join(f"({ast.unparse(value)})" for value in values) + ")"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({ast.unparse(orelse)} if {ast.unparse(test)} else {ast.unparse(body)})"
        case ast.Constant(value=bool() as flag):
            return str(not flag)
        case ast.Constant(value=int() as number):
            return str(number + 1)
        # What is left out is still named, so that a function that uses it from around it can take the code.
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            return f"if 0: {ast.unparse(node)}"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            return f"return None if 1 else ({ast.unparse(value)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"({ast.unparse(operand)})"
        case _:
            return None


def _operand(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"
