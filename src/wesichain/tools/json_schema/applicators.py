"""Keywords with subschemas, and the names and indexes that they evaluate.

A check adds the names or indexes that its keyword evaluates to `evaluated`, if an enclosing schema needs them
(`unevaluatedProperties`, `unevaluatedItems`). Those of a schema that does not match are not added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wesichain.core.internal import is_array, is_object

from .issues import MAX_ISSUES, Issue, count, no_such_field, one_of, quote
from .keywords import Check, Evaluated, Issues, SchemaRun, fault
from .pattern import Pattern


class SchemaNode:
    """A compiled schema. Its fields are set after it is created, so that schemas can refer to each other."""

    __slots__ = ("checks", "collects", "gate", "plain")

    def __init__(self) -> None:
        self.gate: Check | None = None  # the type; if it is wrong, the other checks are skipped
        self.plain: frozenset[type] = frozenset()  # classes whose values always pass the gate
        self.checks: list[Check] = []
        self.collects = False  # its last checks need what the others have evaluated

    def check(self, value: Any, run: SchemaRun, evaluated: Evaluated = None) -> Issues:
        all_issues: Issues = None
        if self.gate and type(value) not in self.plain:
            all_issues = self.gate(value, run, None)
            if all_issues:
                return all_issues
        own: Evaluated = set() if self.collects else evaluated  # not what adjacent schemas evaluate
        for check in self.checks:
            issues = check(value, run, own)
            if issues:
                all_issues = issues if all_issues is None else [*all_issues, *issues][:MAX_ISSUES]
        if evaluated is not None and own is not None:
            evaluated |= own
        return all_issues


# --- the same value ------------------------------------------------------------------------------


def follow_reference(target: SchemaNode) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        run.left -= 1
        if run.left < 0:
            raise RecursionError
        return target.check(value, run, evaluated)

    return check


def all_of(nodes: Iterable[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        all_issues: list[Issue] = []
        for node in nodes:
            all_issues.extend(node.check(value, run, evaluated) or ())
        return all_issues[:MAX_ISSUES] or None

    return check


def _fits(node: SchemaNode, value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
    """Return the issues of a value; if there are none, add what was evaluated to `evaluated`."""
    if evaluated is None:
        return node.check(value, run)
    own = set[Any]()
    issues = node.check(value, run, own)
    if not issues:
        evaluated |= own
    return issues


def any_of(nodes: list[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        failures: list[list[Issue]] = []
        for node in nodes:
            issues = _fits(node, value, run, evaluated)
            if issues:
                failures.append(issues)
            elif evaluated is None:
                return None
        return _closest(failures) if len(failures) == len(nodes) else None

    return check


def one_of_nodes(nodes: list[SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        failures = [issues for node in nodes if (issues := _fits(node, value, run, evaluated))]
        fitting = len(nodes) - len(failures)
        if fitting > 1:
            return fault(f"fits {fitting} of the {len(nodes)} allowed forms; it must fit exactly one")
        return None if fitting else _closest(failures)

    return check


def _closest(failures: list[list[Issue]]) -> list[Issue]:
    """Return the issues of the closest form if none matches, or a list of all forms."""
    inner = [issues for issues in failures if issues[0].path]
    if inner:
        return min(inner, key=len)
    texts = list(dict.fromkeys(issues[0].text for issues in failures))
    expected = [text.removeprefix("expected ").rpartition(", got ")[0] for text in texts]
    if all(expected):
        return fault(f"expected {one_of(expected)}, got {texts[0].rpartition(', got ')[2]}")
    return fault("; or ".join(texts[:3]))


def not_(node: SchemaNode) -> Check:
    return lambda value, run, _: None if node.check(value, run) else fault("has a form that is excluded here")


def if_then_else(condition: SchemaNode, then: SchemaNode | None, otherwise: SchemaNode | None) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        branch = otherwise if _fits(condition, value, run, evaluated) else then
        return branch.check(value, run, evaluated) if branch else None

    return check


def dependent_schemas(nodes: dict[str, SchemaNode]) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        field = value if is_object(value) else {}
        return all_of(node for name, node in nodes.items() if name in field)(value, run, evaluated)

    return check


# --- the parts of a value ------------------------------------------------------------------------

Parts = Iterable[tuple[Any, SchemaNode]]


def each(kind: type, parts: Callable[[Any], Parts]) -> Check:
    """Check the fields of an object (kind dict) or the items of a list (kind list) against their schemas."""

    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        if not isinstance(value, kind):
            return None
        all_issues: Issues = None
        for step, node in parts(value):
            if evaluated is not None:
                evaluated.add(step)
            issues = node.check(value[step], run)  # type: ignore[index]  # kind is dict or list
            if issues:
                all_issues = [*(all_issues or ()), *(issue.under(step) for issue in issues)]
                if len(all_issues) >= MAX_ISSUES:
                    return all_issues[:MAX_ISSUES]
        return all_issues

    return check


class Others:
    """The fields that are not in the adjacent `properties` and `patternProperties`."""

    def __init__(self, named: Iterable[str], patterns: list[Pattern]) -> None:
        self.named = dict.fromkeys(named).keys()  # in their order, for messages
        self._patterns = patterns

    def of(self, value: dict[str, Any]) -> list[str]:
        if value.keys() <= self.named:
            return []
        return [
            name
            for name in value
            if name not in self.named and not any(pattern.matches(name) for pattern in self._patterns)
        ]


def no_other_fields(others: Others) -> Check:
    known = list(others.named)

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        names = others.of(value)[:MAX_ISSUES] if is_object(value) else ()
        return [Issue((name,), no_such_field(name, known)) for name in names] or None

    return check


def property_names(node: SchemaNode) -> Check:
    def check(value: Any, run: SchemaRun, _: Evaluated) -> Issues:
        all_issues = [
            Issue((name,), f"the name of this field: {issues[0].text}")
            for name in (value if is_object(value) else ())
            if (issues := node.check(name, run))
        ]
        return all_issues[:MAX_ISSUES] or None

    return check


def dependent_required(needs: dict[str, list[str]]) -> Check:
    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if not is_object(value):
            return None
        return [
            Issue((name,), f"is required because {quote(field)} was given")
            for field, names in needs.items()
            if field in value
            for name in names
            if name not in value
        ] or None

    return check


def no_items_after(most: int) -> Check:
    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if not is_array(value) or len(value) <= most:
            return None
        return fault(f"expected at most {count(most, 'item')}, got {len(value)}")

    return check


def contains(node: SchemaNode, least: int, most: float) -> Check:
    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        if not is_array(value):
            return None
        fitting = [index for index, item in enumerate(value) if not node.check(item, run)]
        if evaluated is not None:
            evaluated.update(fitting)
        if least <= len(fitting) <= most:
            return None
        bound = (
            f"at least {count(least, 'item')}"
            if len(fitting) < least
            else f"at most {count(int(most), 'item')}"
        )
        return fault(f"expected {bound} of the required form, got {len(fitting)}")

    return check


def accept_all(kind: type) -> Check:
    """Accept every value, and evaluate all fields of an object or all items of a list."""

    def check(value: Any, _: SchemaRun, evaluated: Evaluated) -> Issues:
        if evaluated is not None and isinstance(value, kind):
            evaluated.update(_steps(value))
        return None

    return check


def unevaluated(kind: type, node: SchemaNode) -> Check:
    """Check the fields (kind dict) or items (kind list) that no other keyword has evaluated."""

    def check(value: Any, run: SchemaRun, evaluated: Evaluated) -> Issues:
        known = frozenset(evaluated or ())
        parts = [(step, node) for step in _steps(value) if step not in known]
        return each(kind, lambda _: parts)(value, run, evaluated)

    return check


def _steps(value: Any) -> Iterable[Any]:
    """Return the names of an object's fields, or the indexes of a list's items."""
    return value if is_object(value) else range(len(value)) if is_array(value) else ()
