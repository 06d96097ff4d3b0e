"""Keywords that hand a value, or its parts, to further schemas; and what they leave unevaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from wesichain.core.internal import is_array, is_object

from .issues import MAX_ISSUES, Issue, count, no_such_field, one_of, quote
from .keywords import Check, Issues, SchemaRun, fault
from .pattern import Pattern

Mark: TypeAlias = Callable[
    [Any, SchemaRun, set[Any]], None
]  # adds the names or indexes that a keyword looked at


class SchemaNode:
    """A compiled schema. It is filled after it is made, so that schemas may refer to each other."""

    __slots__ = ("checks", "gate", "marks")

    def __init__(self) -> None:
        self.gate: Check | None = None  # the type: where it is wrong, the rest would only repeat it
        self.checks: list[Check] = []
        self.marks: list[Mark] = []

    def check(self, value: Any, run: SchemaRun) -> Issues:
        found: Issues = self.gate(value, run) if self.gate else None
        if found:
            return found
        for check in self.checks:
            issues = check(value, run)
            if issues:
                found = issues if found is None else [*found, *issues][:MAX_ISSUES]
        return found

    def accepts(self, value: Any, run: SchemaRun) -> bool:
        return not self.check(value, run)

    def mark(self, value: Any, run: SchemaRun, seen: set[Any]) -> None:
        """Add what this schema evaluates of a value that it accepts."""
        for mark in self.marks:
            mark(value, run, seen)


def _below(found: Issues, step: str | int, issues: list[Issue]) -> list[Issue]:
    return [*(found or ()), *(issue.under(step) for issue in issues)][:MAX_ISSUES]


# --- the same value ------------------------------------------------------------------------------


def refer(target: SchemaNode) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        run.left -= 1
        if run.left < 0:
            raise RecursionError
        return target.check(value, run)

    return check


def all_of(nodes: list[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        found: list[Issue] = []
        for node in nodes:
            found.extend(node.check(value, run) or ())
        return found[:MAX_ISSUES] or None

    return check


def any_of(nodes: list[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        failures: list[list[Issue]] = []
        for node in nodes:
            issues = node.check(value, run)
            if not issues:
                return None
            failures.append(issues)
        return _nearest(failures)

    return check


def one_of_nodes(nodes: list[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        results = [node.check(value, run) for node in nodes]
        fitting = [index + 1 for index, issues in enumerate(results) if not issues]
        if len(fitting) > 1:
            return fault(f"fits {len(fitting)} of the {len(nodes)} allowed forms; it must fit exactly one")
        return None if fitting else _nearest([issues for issues in results if issues])

    return check


def _nearest(failures: list[list[Issue]]) -> list[Issue]:
    """Of several forms that do not fit, what to say: the one that fits best, or all that is allowed."""
    inner = [issues for issues in failures if issues[0].path]
    if inner:
        return min(inner, key=len)
    texts = list(dict.fromkeys(issues[0].text for issues in failures))
    expected = [text.removeprefix("expected ").rpartition(", got ")[0] for text in texts]
    if all(expected):
        return fault(f"expected {one_of(expected)}, got {texts[0].rpartition(', got ')[2]}")
    return fault("; or ".join(texts[:3]))


def negate(node: SchemaNode) -> Check:
    return lambda value, run: fault("has a form that is excluded here") if node.accepts(value, run) else None


def choose(condition: SchemaNode, then: SchemaNode | None, otherwise: SchemaNode | None) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        branch = then if condition.accepts(value, run) else otherwise
        return branch.check(value, run) if branch else None

    return check


# --- objects -------------------------------------------------------------------------------------


def properties(nodes: dict[str, SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_object(value):
            return None
        found: Issues = None
        for name, node in nodes.items():
            if name in value:
                issues = node.check(value[name], run)
                if issues:
                    found = _below(found, name, issues)
        return found

    return check


def pattern_properties(patterns: list[tuple[Pattern, SchemaNode]]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_object(value):
            return None
        found: Issues = None
        for name, item in value.items():
            for pattern, node in patterns:
                issues = node.check(item, run) if pattern.matches(name) else None
                if issues:
                    found = _below(found, name, issues)
        return found

    return check


class Others:
    """The fields that `properties` and `patternProperties` beside it do not name."""

    def __init__(self, named: Iterable[str], patterns: list[Pattern]) -> None:
        self.named = frozenset(named)
        self.patterns = patterns

    def of(self, value: dict[str, Any]) -> list[str]:
        return [
            name
            for name in value
            if name not in self.named and not any(pattern.matches(name) for pattern in self.patterns)
        ]


def additional_properties(others: Others, node: SchemaNode, *, forbidden: bool) -> Check:
    known = sorted(others.named)

    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_object(value) or value.keys() <= others.named:
            return None
        found: Issues = None
        for name in others.of(value)[: MAX_ISSUES if forbidden else None]:
            issues = fault(no_such_field(name, known)) if forbidden else node.check(value[name], run)
            if issues:
                found = _below(found, name, issues)
        return found

    return check


def property_names(node: SchemaNode) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_object(value):
            return None
        found: Issues = None
        for name in value:
            issues = node.check(name, run)
            if issues:
                found = _below(found, name, fault(f"the name of this field: {issues[0].text}"))
        return found

    return check


def dependent_required(needs: dict[str, list[str]]) -> Check:
    def check(value: Any, _: SchemaRun) -> Issues:
        if not is_object(value):
            return None
        return [
            Issue((name,), f"is required because {quote(given)} was given")
            for given, names in needs.items()
            if given in value
            for name in names
            if name not in value
        ] or None

    return check


def dependent_schemas(nodes: dict[str, SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_object(value):
            return None
        return all_of([node for name, node in nodes.items() if name in value])(value, run)

    return check


# --- arrays --------------------------------------------------------------------------------------


def prefix_items(nodes: list[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_array(value):
            return None
        found: Issues = None
        for index, (node, item) in enumerate(zip(nodes, value, strict=False)):
            issues = node.check(item, run)
            if issues:
                found = _below(found, index, issues)
        return found

    return check


def items(start: int, node: SchemaNode, *, forbidden: bool) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_array(value) or len(value) <= start:
            return None
        if forbidden:
            return fault(f"expected at most {count(start, 'item')}, got {len(value)}")
        found: Issues = None
        for index in range(start, len(value)):
            issues = node.check(value[index], run)
            if issues:
                found = _below(found, index, issues)
                if len(found) == MAX_ISSUES:
                    break
        return found

    return check


def contains(node: SchemaNode, least: int, most: float) -> Check:
    def check(value: Any, run: SchemaRun) -> Issues:
        if not is_array(value):
            return None
        fitting = sum(node.accepts(item, run) for item in value)
        if fitting < least:
            return fault(f"expected at least {count(least, 'item')} of the required form, got {fitting}")
        return None if fitting <= most else fault(f"expected at most {most} such items, got {fitting}")

    return check


# --- what nobody has looked at -------------------------------------------------------------------


def unevaluated(owner: SchemaNode, node: SchemaNode, *, kind: type, forbidden: bool) -> Check:
    """Judge the fields (kind dict) or items (kind list) that no keyword of `owner` evaluates."""

    def check(value: Any, run: SchemaRun) -> Issues:
        if not isinstance(value, kind):
            return None
        seen: set[Any] = set()
        owner.mark(value, run, seen)
        found: Issues = None
        parts: Any = value.items() if is_object(value) else enumerate(value)  # type: ignore[arg-type]  # a list
        for step, item in parts:
            if step not in seen:
                issues = fault("is not allowed here") if forbidden else node.check(item, run)
                if issues:
                    found = _below(found, step, issues)
        return found

    return check


def mark_same(node: SchemaNode) -> Mark:
    """For keywords that apply a schema to the value itself: it counts where the value fits."""

    def mark(value: Any, run: SchemaRun, seen: set[Any]) -> None:
        run.left -= 1
        if run.left < 0:
            raise RecursionError
        if node.accepts(value, run):
            node.mark(value, run, seen)

    return mark


def mark_choice(condition: SchemaNode, then: SchemaNode | None, otherwise: SchemaNode | None) -> Mark:
    def mark(value: Any, run: SchemaRun, seen: set[Any]) -> None:
        fits = condition.accepts(value, run)
        if fits:
            condition.mark(value, run, seen)
        branch = then if fits else otherwise
        if branch:
            branch.mark(value, run, seen)

    return mark


def mark_dependent(nodes: dict[str, SchemaNode]) -> Mark:
    def mark(value: Any, run: SchemaRun, seen: set[Any]) -> None:
        if is_object(value):
            for name, node in nodes.items():
                if name in value:
                    node.mark(value, run, seen)

    return mark


def mark_fields(names: Callable[[dict[str, Any]], Iterable[str]]) -> Mark:
    return lambda value, _, seen: seen.update(names(value)) if is_object(value) else None


def mark_items(indexes: Callable[[list[Any], SchemaRun], Iterable[int]]) -> Mark:
    return lambda value, run, seen: seen.update(indexes(value, run)) if is_array(value) else None
