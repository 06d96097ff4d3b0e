"""What stands in a signature can be imported: nobody has to reach into a private module to annotate a function."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import wesichain
from tests.docs.pages import DOCS

# Steps of the loop that other rooms take; no user of the front door passes or receives one.
INSIDE = {"InnerRun"}


@pytest.fixture(scope="module")
def public() -> set[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        reference: Any = importlib.import_module("reference")
        return {name for door in reference.DOORS for name in reference.offered(door)}


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


def is_ours(value: Any) -> bool:
    """Whether a name in an annotation is a type or an alias of this project."""
    if inspect.ismodule(value) or isinstance(value, typing.TypeVar | typing.ParamSpec):
        return False
    if inspect.isclass(value):
        return (value.__module__ or "").startswith("wesichain")
    return getattr(value, "__module__", "") not in ("typing", "typing_extensions", "types") or bool(
        typing.get_args(value)
    )


@pytest.mark.parametrize("name", sorted(wesichain.__all__))
def test_every_name_in_a_signature_of_the_front_door_is_public(name: str, public: set[str]) -> None:
    hidden = {
        word.id: where
        for where, text, names in annotations_of(getattr(wesichain, name))
        for word in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(word, ast.Name)
        and word.id not in public | INSIDE
        and word.id in names
        and is_ours(names[word.id])
    }
    assert not hidden
