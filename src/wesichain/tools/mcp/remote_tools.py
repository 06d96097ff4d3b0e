"""Remote tools: which tools of a server are offered, their names, and their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from typing_extensions import TypedDict, override

from wesichain.core import ToolCallingLlm
from wesichain.core.internal import Value, dump_json
from wesichain.errors import CodecError, ConfigError, ToolDefinitionError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Effect, Tool
from wesichain.tools.json_schema.issues import one_of
from wesichain.tools.json_tool import JsonTool
from wesichain.tools.labels import Trust

from .callbacks import OnElicit, Sampling
from .sdk import KNOWN_PROTOCOL_VERSIONS, types
from .text import bounded, clean_schema, has_controls, label

_INVALID = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_NAME = 64  # characters
_MAX_SCHEMA = 200_000  # bytes, as JSON


class McpOptions(TypedDict, total=False):
    """Options of a server. Names of tools are those that the server uses.

    - `name`: the name of the server in errors.
    - `only`: the tools to offer: names, or a function of a name.
    - `prefix` is added to every name, so that two servers can be used together.
    - `approval`: require human approval for all tools (True), for none (False), or for the named ones and
      those that the server does not declare as non-destructive (by default only the latter).
    - `timeout` (30.0), `max_output` and `effect` ("once") are those of a tool. `timeout` also limits reading
      a resource, a prompt or a completion.
    - `connect_timeout` (30.0) limits starting or reaching the server, and reading its lists.
    - `protocol`: any version before 2026-07-28 ("2025-11-25", ...) connects with the handshake of these
      versions, in which both sides agree on one of them; by default the newest of all is tried first.
    - `on_elicit` answers questions of the server: see `OnElicit`. Without it a question interrupts the run,
      and `Provide({...})` answers it.
    - `sampling` lets the server call a model: True for that of the run, a model, or a `Sampling` with limits.
    - `trust` ("outside"): "inside" says that the texts of the server are not those of strangers (see `Flow`).
    - `max_tools` (1,000) and `max_description` (20,000 bytes) limit what is read from the server's list.
    """

    name: str
    only: Collection[str] | Callable[[str], bool]
    prefix: str
    approval: bool | Collection[str]
    timeout: float
    connect_timeout: float
    effect: Effect
    max_output: int
    protocol: str
    on_elicit: OnElicit
    sampling: bool | ToolCallingLlm | Sampling
    trust: Trust
    max_tools: int
    max_description: int


class McpTool(JsonTool):
    """A tool of a server. If the server asks a question, the request stays open until the answer."""

    has_open_call: Callable[[str], bool] | None = None

    @override
    def is_waiting(self, key: str) -> bool:
        return self.has_open_call is not None and self.has_open_call(key)


class ToolSelection(Value):
    """The options of a server, with their defaults."""

    name: str = ""
    only: Collection[str] | Callable[[str], bool] | None = None
    prefix: str = ""
    approval: bool | Collection[str] = ()
    timeout: float = Tool.timeout
    connect_timeout: float = 30.0
    effect: Effect = "once"
    max_output: int = Tool.max_output
    protocol: str = KNOWN_PROTOCOL_VERSIONS[-1]
    on_elicit: OnElicit | None = None
    sampling: bool | ToolCallingLlm | Sampling = False
    trust: Trust = "outside"
    max_tools: int = 1_000
    max_description: int = 20_000

    def __post_init__(self) -> None:
        self._tool(types.Tool(name="options", input_schema={"type": "object"}), "options", print)
        if self.protocol not in KNOWN_PROTOCOL_VERSIONS:
            raise ConfigError(f"protocol= has to be {one_of(KNOWN_PROTOCOL_VERSIONS)}, not {self.protocol!r}")
        if self.max_tools < 1 or self.max_description < 100:
            raise ConfigError("max_tools has to be 1 or more, and max_description 100 or more")

    @property
    def allowed_sampling(self) -> Sampling | None:
        """The limits for calls of a model by the server; None if they are not allowed."""
        if isinstance(self.sampling, Sampling):
            return self.sampling
        if isinstance(self.sampling, bool):
            return Sampling() if self.sampling else None
        return Sampling(self.sampling)

    def choose(
        self,
        listed: Sequence[types.Tool],
        server: str,
        call: Callable[[str, Any, ToolContext], Coroutine[Any, Any, Any]],
    ) -> tuple[tuple[Tool, ...], dict[str, str]]:
        """Return the tools, and why others are left out. Unknown names in options raise `ConfigError`."""
        names = [*dict.fromkeys(tool.name for tool in listed)]
        for option, given in (("only", self.only), ("approval", self.approval)):
            for name in _names_in(given):
                if name not in names:
                    raise ConfigError(
                        f"MCP server {server!r} has no tool {name!r}, which {option}= names; "
                        f"its tools are {one_of([*map(label, names)]) or 'none'}"
                    )
        wanted = [name for name in names if self._is_wanted(name)]
        local = local_names(wanted[: self.max_tools], prefix=self.prefix)
        tools: dict[str, Tool] = {}
        left_out: dict[str, str] = {}
        for each in listed:
            if each.name in tools:
                left_out[label(each.name)] = "it is listed more than once; the first is used"
            elif each.name in local:
                try:
                    tools[each.name] = self._tool(each, local[each.name], partial(call, each.name))
                except ToolDefinitionError as error:
                    left_out[label(each.name)] = bounded(str(error), 1_000)
        if len(wanted) > self.max_tools:
            left_out[f"{len(wanted) - self.max_tools:,} more"] = (
                f"the server lists {len(wanted):,} tools, and max_tools is {self.max_tools:,}; "
                f"choose with only=, or increase it"
            )
        return tuple(tools.values()), left_out

    def _is_wanted(self, name: str) -> bool:
        if callable(self.only):
            return self.only(name)
        return self.only is None or name in _names_in(self.only)

    def _tool(self, listed: types.Tool, name: str, invoke: Callable[..., Any]) -> Tool:
        if listed.execution is not None and listed.execution.task_support == "required":
            raise ToolDefinitionError(f"tool {name!r} can only be run as a task, which is not supported")
        approval = self.approval
        if not isinstance(approval, bool):  # hints can only add approvals
            approval = _is_destructive(listed.annotations) or listed.name in _names_in(approval)
        returns = listed.output_schema
        return McpTool(
            name,
            bounded(listed.description or listed.title or "", self.max_description),
            self._schema(name, listed.input_schema),
            invoke,
            returns=None if returns is None else self._schema(name, returns),
            timeout=self.timeout,
            effect=self.effect,
            approval=approval,
            max_output=self.max_output,
            trust=self.trust,
        )

    def _schema(self, name: str, schema: Any) -> Any:
        """Return a schema for the model, without control characters. Raises an error if it is too large."""
        try:
            size = len(dump_json(schema).encode())
        except CodecError as error:
            raise ToolDefinitionError(f"tool {name!r}: its schema is not JSON: {error}") from None
        if size > _MAX_SCHEMA:
            raise ToolDefinitionError(
                f"tool {name!r}: its schema has {size:,} bytes, more than {_MAX_SCHEMA:,}"
            )
        cleaned = clean_schema(schema, self.max_description)
        if has_controls(cleaned):
            raise ToolDefinitionError(
                f"tool {name!r}: its schema has control characters in a name or a value"
            )
        return cleaned


def _is_destructive(hints: types.ToolAnnotations | None) -> bool:
    """Whether a tool is destructive: according to the protocol it is, unless a hint denies it."""
    if hints is None:
        return True
    return hints.destructive_hint if hints.destructive_hint is not None else not hints.read_only_hint


def _names_in(given: bool | Collection[str] | Callable[[str], bool] | None) -> Iterable[str]:
    if isinstance(given, str):
        return (given,)
    return () if given is None or isinstance(given, bool) or callable(given) else given


def local_names(names: list[str], *, prefix: str = "") -> dict[str, str]:
    """Return valid and unique local names for the server's names, always the same for the same names.

    Valid names are kept. Characters that are not allowed are replaced by `_`. A name that is then too long or
    not unique ends in a hash of the original.
    """
    found: dict[str, str] = {}
    used: set[str] = set()
    plain = {name: _INVALID.sub("_", prefix + name[:1_000]) for name in names}
    for name in sorted(names, key=lambda name: plain[name] != prefix + name):  # valid names first
        local = full = plain[name] if re.match(r"[A-Za-z_]", plain[name]) else f"_{plain[name]}"
        digest = name
        while len(local) > _MAX_NAME or local in used:
            digest = sha256(digest.encode("utf-8", "replace")).hexdigest()[:8]
            local = f"{full[: _MAX_NAME - 9]}_{digest}"
        used.add(local)
        found[name] = local
    return {name: found[name] for name in names}
