"""Faults: exceptions as recorded, and exceptions made from them again.

A recorded exception has its classes by name. It is raised again as a class derived from the nearest of them
that this process has loaded; nothing is imported for it, and no constructor is called with recorded data.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from wesichain.core.internal import is_array, is_object
from wesichain.errors import WesichainError

from .entries import Fault, Raised

_MOST = 16  # exceptions in a chain
_TOP = frozenset({Exception, BaseException, object})


def name_of_class(cls: type) -> str:
    """The name of a class in a log: `module:QualifiedName`, without the module for a built-in class."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}:{cls.__qualname__}"


@cache
def class_names(cls: type[BaseException]) -> tuple[str, ...]:
    """The names of an exception class and its bases, without `Exception` and what is above it."""
    own = [base for base in cls.__mro__ if base not in _TOP]
    return tuple(map(name_of_class, own or [cls]))


def fault_of(error: BaseException) -> Fault:
    """An exception with its causes, to be recorded."""
    chain: list[Raised] = []
    found: BaseException | None = error
    while found is not None and len(chain) < _MOST:
        chain.append(Raised(class_names(type(found)), str(found), _fields_of(found)))
        found = found.__cause__
    return Fault(tuple(chain))


def _fields_of(error: BaseException) -> Mapping[str, Any]:
    """The attributes of one of our exceptions, or None for one that JSON cannot hold.

    A foreign exception has only its text: its constructor is not called again.
    """
    if not isinstance(error, WesichainError):
        return {}
    return {name: value if _is_plain(value) else None for name, value in vars(error).items()}


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, str | int | float | bool):
        return True
    if isinstance(value, list | tuple):
        return all(map(_is_plain, cast("list[Any]", value)))
    return is_object(value) and all(isinstance(key, str) and _is_plain(one) for key, one in value.items())


def revived(fault: Fault) -> Exception:
    """An exception with the recorded classes, as far as they are loaded, text, fields and causes."""
    error: Exception | None = None
    for raised in reversed(fault.chain):
        made = _made(raised)
        made.__cause__ = error
        error = made
    assert error is not None, "a fault has at least one exception"
    return error


def _made(raised: Raised) -> Exception:
    kind, text = raised.classes[0], raised.message
    found = _loaded(kind)
    if found is not None and issubclass(found, WesichainError):
        return _ours(found, raised)
    base = found or next(filter(None, map(_loaded, raised.classes[1:])), Exception)
    usable = next(cls for cls in base.__mro__ if _takes_no_arguments(cls))
    cls = _recorded_class(kind, usable)
    if issubclass(cls, ExceptionGroup):  # a group needs exceptions, which are not recorded
        made: Exception = cast("Any", cls).__new__(cls, text, [Exception(text)])
    else:
        made = cls.__new__(cls)
    made.args = (text,)
    return made


def _ours(cls: type[WesichainError], raised: Raised) -> WesichainError:
    """One of our exceptions: its attributes are set, and its constructor is not called."""
    error: WesichainError = cls.__new__(cls, raised.message)
    error.args = (raised.message,)
    for name, value in raised.fields.items():
        setattr(error, name, tuple(value) if is_array(value) else value)
    return error


def _loaded(name: str) -> type[Exception] | None:
    """The loaded class of exceptions with this name; None without one."""
    module, _, path = name.rpartition(":")
    found: object = sys.modules.get(module or "builtins")
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _takes_no_arguments(cls: type) -> bool:
    if issubclass(cls, ExceptionGroup):
        return True
    try:
        cls.__new__(cls)
    except TypeError:
        return False
    return True


@cache
def _recorded_class(name: str, base: type[Exception]) -> type[Exception]:
    """A class with the recorded name, derived from a loaded one, whose text is the recorded text."""
    module, _, path = name.rpartition(":")
    named = {"__module__": module or "builtins", "__qualname__": path, "__str__": _text_of}
    return type(path.rpartition(".")[2], (base,), named)


def _text_of(error: Exception) -> str:
    return str(error.args[0])  # KeyError would put quotes around it
