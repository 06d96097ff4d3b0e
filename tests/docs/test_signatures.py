"""What stands in a signature can be imported: nobody has to reach into a private module to annotate a function."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import typing
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import TOOLS

# What the loop, the graph and the stores pass to each other; no user constructs or annotates one.
INSIDE = frozenset(
    {
        *("HistoryWindow", "InnerRun"),  # the loop
        *("Definition", "OuterWrites", "StateForm", "StateValues", "Tap", "TaskQuestions", "TaskRecord"),
        *("Backend", "Domain", "Shares"),  # the playbook's storage
        *("FinishedRun", "Run"),  # durable runs and the edge
        *("Parts", "SchemaPlan"),  # of a tool: how it is read, and the quick path of a call
    }
)


# Doors of our own rooms.
SHARED = (
    *(f"wesichain.{room}.internal" for room in ("agent", "core", "edge", "policy", "tools", "web")),
    "wesichain.store",
)


@cache
def doors() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        return importlib.import_module("doors")


@cache
def importable() -> frozenset[str]:
    shared = {name for door in SHARED for name in names_in(importlib.import_module(door))}
    public: frozenset[str] = doors().public_names()
    return INSIDE | public | shared


def names_in(module: ModuleType) -> frozenset[str]:
    """The names of a module, with those that it loads on first use."""
    tree = ast.parse(inspect.getsource(module))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return frozenset(alias.asname or alias.name for node in found for alias in node.names)


def values_of(door: str) -> list[Any]:
    return [getattr(importlib.import_module(door), name) for name in doors().offered(door)]


def annotations_of(value: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The annotations of a function, or of a class's fields and public methods: where, text, globals."""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            if name == "__init__" or not name.startswith("_"):
                plain = getattr(member, "__func__", getattr(member, "fget", member))
                if callable(plain):
                    yield from annotations_of(inspect.unwrap(plain))
        for name, text in inspect.get_annotations(value).items():
            if not name.startswith("_"):
                yield f"{value.__name__}.{name}", str(text), vars(sys.modules[value.__module__])
    elif inspect.isfunction(value):
        for name, text in value.__annotations__.items():
            if not name.startswith("_"):
                yield f"{value.__qualname__}({name})", str(text), value.__globals__


def classes_in(value: Any) -> Iterator[type]:
    """Our classes in a type: itself, or the parts of an alias, which the reference writes out."""
    if inspect.isclass(value) and not typing.get_args(value):
        if value.__module__.startswith("wesichain"):
            yield value
        return
    for part in typing.get_args(value):
        yield from (
            found for one in (part if isinstance(part, list) else [part]) for found in classes_in(one)
        )


def hidden_in(text: str, names: dict[str, Any]) -> set[str]:
    tree = ast.parse(text, mode="eval")
    unpacked = {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Unpack"
        for word in ast.walk(node.slice)
    }  # keywords, which a caller writes one by one
    return {
        found.__name__
        for word in ast.walk(tree)
        if isinstance(word, ast.Name) and word not in unpacked and word.id in names
        for found in classes_in(names[word.id])
    } - importable()


@pytest.mark.parametrize("door", doors().DOORS)
def test_every_class_in_a_signature_can_be_imported(door: str) -> None:
    hidden = {
        where: found
        for value in values_of(door)
        for where, text, names in annotations_of(value)
        if (found := hidden_in(text, names))
    }
    assert not hidden


def test_what_is_exempt_is_in_a_signature() -> None:
    """A name that has left the signatures leaves the list."""
    words = {
        word.id
        for door in doors().DOORS
        for value in values_of(door)
        for _, text, _ in annotations_of(value)
        for word in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(word, ast.Name)
    }
    assert words >= INSIDE
