"""Offer: which tools of a server are offered, under which names, and with how much care. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

from typing_extensions import TypedDict, override

from wesichain.core import dataclass
from wesichain.errors import ConfigError, ToolDefinitionError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Effect, Tool
from wesichain.tools.json_schema import one_of
from wesichain.tools.json_tool import JsonTool

from .sdk import types

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 64  # characters of a name


class OnElicit(Protocol):
    """Asks a person what a server wants to know: gives the answers by name, or None to decline.

    What has a default in the schema may be left out; what does not fit the schema is not sent.
    """

    def __call__(self, message: str, schema: Mapping[str, Any], /) -> Awaitable[Mapping[str, Any] | None]: ...


class McpOptions(TypedDict, total=False):
    """How a server's tools are offered; names are those that the server uses.

    `only` leaves out all others: names, or a question about a name. `prefix` goes before every name, so
    that two servers can be used together. `approval`: ask a person first, for all (True), none (False),
    or the named ones and those that may be destructive (by default just those): all that the server does not
    call harmless. `timeout`
    (30.0), `max_output` and `effect` are those of a tool, but `effect` is "once" unless you know better.
    `connect_timeout` (30.0) bounds the way to the server; `name` is what errors call it. `on_elicit` answers
    questions of the server: see `OnElicit`; without it, a question ends the run as interrupted, with a
    pending call, and `Provide({...})` answers it. `sampling=True` lets the server ask the run's own model, on
    the run's account; by default it is told that it cannot.
    """

    name: str
    only: Collection[str] | Callable[[str], bool]
    prefix: str
    approval: bool | Collection[str]
    timeout: float
    connect_timeout: float
    effect: Effect
    max_output: int
    on_elicit: OnElicit
    sampling: bool


class McpTool(JsonTool):
    """A tool of a server. A call of it that asks a question lives on, in its connection, until the answer."""

    can_wait = True
    waits: Callable[[str], bool] | None = None

    @override
    def is_waiting(self, key: str) -> bool:
        return self.waits is not None and self.waits(key)


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """The options of a server, with their defaults."""

    name: str = ""
    only: Collection[str] | Callable[[str], bool] | None = None
    prefix: str = ""
    approval: bool | Collection[str] = ()
    timeout: float = Tool.timeout
    connect_timeout: float = 30.0
    effect: Effect = "once"
    max_output: int = Tool.max_output
    on_elicit: OnElicit | None = None
    sampling: bool = False

    def __post_init__(self) -> None:
        self._tool(types.Tool(name="options", input_schema={"type": "object"}), "options", print)

    def choose(
        self,
        listed: list[types.Tool],
        server: str,
        call: Callable[[str, Any, ToolContext], Coroutine[Any, Any, Any]],
    ) -> tuple[tuple[Tool, ...], dict[str, str]]:
        """The tools, and why others are left out; an option that names none of them is a `ConfigError`."""
        names = [*dict.fromkeys(tool.name for tool in listed)]
        for option, given in (("only", self.only), ("approval", self.approval)):
            for name in _named(given):
                if name not in names:
                    raise ConfigError(
                        f"MCP server {server!r} has no tool {name!r}, which {option}= names; "
                        f"its tools are {one_of(names) or 'none'}"
                    )
        called = local_names([name for name in names if self._is_wanted(name)], prefix=self.prefix)
        tools: dict[str, Tool] = {}
        left_out: dict[str, str] = {}
        for each in listed:
            if each.name in tools:
                left_out[each.name] = "it is listed more than once; the first is used"
            elif each.name in called:
                try:
                    tools[each.name] = self._tool(each, called[each.name], partial(call, each.name))
                except ToolDefinitionError as error:
                    left_out[each.name] = str(error)
        return tuple(tools.values()), left_out

    def _is_wanted(self, name: str) -> bool:
        if callable(self.only):
            return self.only(name)
        return self.only is None or name in _named(self.only)

    def _tool(self, listed: types.Tool, name: str, invoke: Callable[..., Any]) -> Tool:
        if listed.execution is not None and listed.execution.task_support == "required":
            raise ToolDefinitionError(f"tool {name!r} can be run as a task only, and tasks are not supported")
        approval = self.approval
        if not isinstance(approval, bool):  # a hint may add to those that are named, never take away
            approval = _is_destructive(listed.annotations) or listed.name in _named(approval)
        return McpTool(
            name,
            listed.description or listed.title or "",
            listed.input_schema,
            invoke,
            returns=listed.output_schema,
            timeout=self.timeout,
            effect=self.effect,
            approval=approval,
            max_output=self.max_output,
        )


def _is_destructive(hints: types.ToolAnnotations | None) -> bool:
    """Whether a tool may destroy something, as the protocol reads hints: yes, unless its server says no."""
    if hints is None:
        return True
    return hints.destructive_hint if hints.destructive_hint is not None else not hints.read_only_hint


def _named(given: bool | Collection[str] | Callable[[str], bool] | None) -> Iterable[str]:
    if isinstance(given, str):
        return (given,)
    return () if given is None or isinstance(given, bool) or callable(given) else given


def local_names(names: list[str], *, prefix: str = "") -> dict[str, str]:
    """The server's names, each with the one it has here: legal, unlike the others, the same every time.

    A legal name keeps it. What is not allowed in a name becomes `_`; a name that is then too long, or
    taken, ends in a few digits made of the original.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    plain = {name: _ILLEGAL.sub("_", prefix + name) for name in names}
    for name in sorted(names, key=lambda name: plain[name] != prefix + name):  # legal ones first
        local = whole = plain[name] if re.match(r"[A-Za-z_]", plain[name]) else f"_{plain[name]}"
        digest = name
        while len(local) > _LONGEST or local in taken:
            digest = sha256(digest.encode()).hexdigest()[:8]
            local = f"{whole[: _LONGEST - 9]}_{digest}"
        taken.add(local)
        found[name] = local
    return {name: found[name] for name in names}
