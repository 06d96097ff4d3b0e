"""Errors: each has its message and its fields, goes into another process, and comes back as it was."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from wesichain import errors
from wesichain.errors import ToolErrorKind

KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
OTHER = {"kind": ToolErrorKind.TIMEOUT, "nodes": ("<a>", "<b>")}


def parameters(kind: type[Any]) -> list[str]:
    """Those of the class, and those of the class above that it passes on."""
    if kind.__module__ == "builtins":
        return []
    above = parameters(kind.__bases__[0])
    if "__init__" not in vars(kind):
        return above
    own = [*inspect.signature(kind).parameters.values()]
    named = [one.name for one in own if one.kind is not one.VAR_KEYWORD]
    return named if len(named) == len(own) else [*named, *above]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_has_what_it_was_given_and_survives(kind: type[Any]) -> None:
    given = {name: OTHER.get(name, f"<{name}>") for name in dict.fromkeys(parameters(kind))}
    error = kind(**given) if given else kind("words")
    assert str(error)
    for name, value in given.items():
        assert value in [*vars(error).values()] or str(value) in str(error), name
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
