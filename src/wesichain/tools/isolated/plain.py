"""Plain: calls that take and give JSON and nothing else, with nothing loaded for them but the tool's own.

The program has checked the arguments, and checks the result. Whatever is not plain is left to `work`, which
loads types and all; the program learns of it from the answer, and asks a keeper that has them the next time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from json import JSONDecoder, JSONEncoder, encoder
from math import isfinite
from typing import Any

from .remake import decode, fill_main

_MOST_CHARACTERS = 4_000  # of an error; the program shortens it
_MOST_LEVELS = 150  # fewer than a reader of JSON takes
_ATOMS = (str, int, bool, type(None))
_LARGE = 262_144  # bytes of a result that the program's loop should not have to look at
_scan: Callable[[str, int], tuple[Any, int]] = vars(JSONDecoder())["scan_once"]


def _writer() -> Callable[[Any], str]:
    """`JSONEncoder.encode` makes its inner parts anew for every text, all of which a worker would copy."""
    slow = JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return slow.encode
    pieces = make(None, slow.default, encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_text = _writer()


def read(data: bytes) -> Any:
    """What the program has written as JSON."""
    return _scan(data.decode(), 0)[0]


def write(value: Any) -> bytes:
    """JSON for the program; `ValueError` for what has none."""
    return _text(value).encode()


class PlainWork:
    """One function, ready to be called: answers `{"plain"}` or `{"error", "message"}`.

    `answer_oddly` answers for the tool of a recipe that has returned something else.
    """

    def __init__(self, recipe: dict[str, Any], answer_oddly: Callable[[dict[str, Any], Any], bytes]) -> None:
        self._recipe = recipe
        self._answer_oddly = answer_oddly
        if recipe["main"] is not None:
            fill_main(recipe["main"])
        ours: Any = sys.modules.get("wesichain.tools.function")
        if ours:
            ours.FunctionTool.reads_at_once = False  # types are not looked at here
        made = recipe.get("tool", recipe)
        self._function: Callable[..., Any] = decode(made["function"])

    def warm_up(self) -> None:
        """Do once, here, what every worker would otherwise do for the first time."""
        write({"plain": None})

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call."""
        return request["args"]  # type: ignore[no-any-return]  # a dict, as the program has checked

    def run(self, call: dict[str, Any]) -> bytes:
        """In the worker: make the call, and say in JSON what came of it."""
        try:
            value = self._function(**call)
        except BaseException as error:  # noqa: BLE001  # the program decides what it means
            return write(failure(error))
        try:
            if is_plain(value):
                answer = b'{"plain":%b}' % write(value)
                if len(answer) < _LARGE:
                    return answer
        except ValueError:  # too many digits, or half of a character
            pass
        return self._answer_oddly(self._recipe, value)


def is_plain(value: Any, levels: int = _MOST_LEVELS) -> bool:
    """Whether a value is JSON and nothing else, to the last item."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # any value at all
    if kind is dict:
        inner = levels - 1
        return levels > 0 and all(type(key) is str and is_plain(each, inner) for key, each in value.items())
    if kind is list:
        inner = levels - 1
        return levels > 0 and all(is_plain(each, inner) for each in value)
    return kind in _ATOMS or (kind is float and isfinite(value))


def failure(error: Any) -> dict[str, Any]:
    """What a tool raised; ours are known where they have been loaded, and so could be raised."""
    ours: Any = sys.modules.get("wesichain.errors")
    if ours and isinstance(error, ours.ToolSerializationError):
        return {"error": "result", "message": _cut(str(error))}
    if ours and isinstance(error, ours.ToolError):
        return {"error": error.kind.value, "message": _cut(str(error))}
    return {"error": "raised", "message": describe(error)}


def unmade(error: BaseException) -> dict[str, Any]:
    """The answer of a tool that cannot be made where it should run."""
    return {"error": "made", "message": describe(error)}


def describe(error: BaseException) -> str:
    """The kind and the message of an exception."""
    cancelled: Any = getattr(sys.modules.get("asyncio"), "CancelledError", ())
    if isinstance(error, cancelled):
        return "it raised CancelledError, though nobody had cancelled it"
    remote: Any = getattr(sys.modules.get("wesichain.tools.failures"), "RemoteError", ())
    try:
        if isinstance(error, remote):
            return _cut(str(error))  # it has been described
        text = str(error)
    except Exception:  # noqa: BLE001  # a broken __str__ must not hide the error
        text = "(its message cannot be read)"
    return _cut(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _cut(text: str) -> str:
    return text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()
