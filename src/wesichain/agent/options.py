"""Options of an agent and of one run of it, with their defaults and checks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, cast, get_origin

from typing_extensions import TypeVar

from wesichain._elsewhere import AGENT, unknown_keyword
from wesichain.context import ContextView
from wesichain.context.internal import are_views
from wesichain.core import EventSink, ModelSettings
from wesichain.core.internal import NO_SETTINGS, Advice, CancellationToken, Clock, Value
from wesichain.errors import ConfigError, PolicyConfigError
from wesichain.middleware import Middleware
from wesichain.platform.processes import after_fork
from wesichain.policy import Budget, FailFast, PolicyEngine
from wesichain.tools import ToolContext

from .backend import Backend
from .flow.flow import Flow
from .model_names import AnyModel
from .rules.answers import OutputMode
from .rules.checks import OutputCheck

if TYPE_CHECKING:
    from wesichain.journal import Journal, Journals
    from wesichain.trace import Redactor

    from .handoffs.handoff import Actor, Handoff
    from .memory.stores import RunMemory
else:  # for `help` and `inspect.signature`, which resolve annotations
    Journal = Journals = Redactor = Actor = Handoff = RunMemory = Any

DepsT = TypeVar("DepsT", default=Any)
OutT = TypeVar("OutT", default=Any)
Sinks: TypeAlias = EventSink | Iterable[EventSink] | None


OnLimit: TypeAlias = Literal["fail", "partial", "answer"]


class LoopGuard(Value):
    """The number of equal calls in a row at which the model is warned, and at which the run ends."""

    tell_at: int = 3
    stop_at: int = 4


GUARD = LoopGuard()


class AgentOptions(Value, Generic[OutT, DepsT]):
    """The options of a runtime, given once for all its runs.

    `policy`: decides what happens after an error; None is the preference of the model, or FailFast.
    `budget`: the most that a run may spend. `instructions`: the system message. `on_limit`: what a run does
    at the end of its budget: "fail", "partial" (the model's last text is the answer) or "answer" (one more
    model call, without tools). `events`: sinks for the events. `tool_concurrency`: how many calls of a reply
    run at the same time. `exclude_after`: the number of failures after which a tool is no longer offered.
    `loop_guard`: when a model that repeats a call is warned, and stopped. `approval_ttl`: seconds until an
    approval expires. `context`: views that shorten the requests of a long run, one after the other.
    `output_mode`: how a typed answer is requested: "tool" (a final tool for each type), "native" (the
    provider's schema), "prompted" (in words), or "auto". `output_checks`: functions of `(output)` or
    `(ctx, output)` that return the answer, or raise ValueError or ToolError, which is returned to the model.
    `middleware`: code around runs, model calls and tool calls, the first outermost.
    `handoffs`: agents, or `Handoff(agent, ...)`, that the model may hand the run off to. `deps_type`: the
    type of a run's deps; None accepts any. `default_policy`: the policy for models without a preference.
    `settings`: settings of the model: temperature, length, reasoning, tool choice and so on.
    `flow`: asks a person before a call whose values come from text of strangers (see `Flow`).
    `journals`: where the logs of runs are stored, unless a run has its own.
    `redactor`: removes secrets from events for sinks, in place of the default one. `clock`: the source of
    time. `new_id`: makes the ids of runs without a `run_id`. `name`: the name of the agent in events.
    """

    name: str = "agent"
    policy: PolicyEngine | None = None
    budget: Budget = Budget()
    instructions: str | None = None
    on_limit: OnLimit = "fail"
    events: Sinks = None
    tool_concurrency: int = 1
    exclude_after: int | None = 3
    loop_guard: LoopGuard | None = GUARD
    approval_ttl: float | None = None
    context: Sequence[ContextView] = ()
    output_mode: OutputMode = "auto"
    output_checks: Sequence[OutputCheck[OutT, DepsT]] = ()
    middleware: Sequence[Middleware[DepsT]] = ()
    handoffs: Sequence[Actor | Handoff] = ()
    deps_type: Any = None
    default_policy: PolicyEngine = FailFast()
    settings: ModelSettings = NO_SETTINGS
    flow: Flow | None = None
    journals: Journals | None = None
    redactor: Redactor | None = None
    clock: Clock | None = None
    new_id: Callable[[], str] | None = None

    def __post_init__(self) -> None:
        for name, (is_right, expected) in _CHECKS.items():
            value: Any = getattr(self, name)
            if not is_right(value):
                raise PolicyConfigError(f"{name}={value!r}: use {expected}")


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "a text"),
    "policy": (
        lambda value: value is None or (not isinstance(value, type) and hasattr(value, "on_model_error")),
        "an instance, such as FailFast()",
    ),
    "budget": (lambda value: isinstance(value, Budget), "a Budget, such as Budget(steps=5)"),
    "instructions": (lambda value: value is None or isinstance(value, str), "text, or None"),
    "on_limit": (lambda value: value in ("fail", "partial", "answer"), "'fail', 'partial' or 'answer'"),
    "tool_concurrency": (lambda value: isinstance(value, int) and value >= 1, "1 or more"),
    "exclude_after": (
        lambda value: value is None or (isinstance(value, int) and value >= 1),
        "1 or more, or None to exclude no tool",
    ),
    "loop_guard": (
        lambda value: value is None or isinstance(value, LoopGuard),
        "LoopGuard(tell_at, stop_at), or None",
    ),
    "context": (are_views, "a list of views, such as [Window(8_000)]"),
    "output_mode": (
        lambda value: value in ("auto", "tool", "native", "prompted"),
        "'auto', 'tool', 'native' or 'prompted'",
    ),
    "output_checks": (
        lambda value: isinstance(value, list | tuple) and all(callable(one) for one in cast("Any", value)),
        "a list of functions, each of (output) or (ctx, output)",
    ),
    "middleware": (
        lambda value: (
            isinstance(value, list | tuple) and all(isinstance(one, Middleware) for one in cast("Any", value))
        ),
        "a list of Middleware objects, such as [InputGuard(check)]",
    ),
    "settings": (
        lambda value: isinstance(value, ModelSettings),
        "a ModelSettings, such as ModelSettings(temperature=0.2)",
    ),
    "flow": (lambda value: value is None or isinstance(value, Flow), "a Flow, such as Flow(), or None"),
    "journals": (
        lambda value: value is None or hasattr(value, "writing"),
        "journals, such as SqliteJournals(path)",
    ),
    "handoffs": (
        lambda value: isinstance(value, list | tuple),
        "a list of agents, or of Handoff(agent, ...)",
    ),
}


class RunOptions(Value, Generic[DepsT]):
    """The options of one run. They are the same for a run that is resumed.

    A new run also takes the task and a `history`, the messages before the task.
    `deps`: an object of the caller's, for tools, instructions and checks; it is not stored.
    `model`, `budget`: used in place of the agent's. `settings`: override those of the agent. A resumed run
    keeps its model, budget and settings.
    `cancellation`: a token that stops the run; the run never cancels it. `parent`: the context of the call
    that this run is part of: the run spends from that run's account, is part of its log and waits with it.
    `events`: further sinks. `stream`: emit text as it arrives. `run_id`: the id of the run. `journals`: where
    its log is stored; the same line with the same id continues the run, or returns the result that it had.
    `instructions`: used in place of the agent's. `advice`: lessons of earlier runs, added below the instructions.
    `key`: the name of the run in that call, by which it is found again when the call is made again. `by`: who
    asks for the run, or decides. `clock` is the source of time; `wrap` wraps the model and the tools;
    `on_open` is called with the `Drive`; `place` is the place of the run in a log, if it has one already.
    """

    deps: DepsT = cast("Any", None)
    model: AnyModel | None = None
    budget: Budget | None = None
    settings: ModelSettings | None = None
    cancellation: CancellationToken | None = None
    parent: ToolContext | Journal | None = None
    events: Sinks = None
    stream: bool = False
    run_id: str | None = None
    journals: Journals | None = None
    instructions: str | None = None
    advice: Advice | None = None
    key: str | None = None
    by: str | None = None
    clock: Clock | None = None
    wrap: Callable[[Backend], Backend] | None = None
    on_open: Callable[[Any], None] | None = None
    place: Any = None  # a `RunPlace`

    @property
    def kept_budget(self) -> Budget | None:
        """The budget to store with an interrupted run; a run inside a call gets its own from the call."""
        return self.budget if self.parent is None else None


NO_OPTIONS = RunOptions()
_INTERNAL = frozenset({"default_policy", "on_open", "place", "wrap"})

# The types of the options of a run; only options that are given are checked.
_RUN_CHECKS: dict[str, tuple[Any, str]] = {
    "budget": (Budget, "a Budget, such as Budget(steps=5)"),
    "settings": (ModelSettings, "a ModelSettings, such as ModelSettings(temperature=0.2)"),
    "cancellation": (CancellationToken, "a CancellationToken"),
    "run_id": (str, "a text"),
    "instructions": (str, "a text"),
    "key": (str, "a text"),
    "by": (str, "a text: who asks"),
}


# Values of classes that are loaded with the first of them are known by a member.
_MEMBERS = {
    "journals": ("writing", "journals, such as SqliteJournals(path)"),
    "parent": ("link", "the context of the call, or the Journal of the function, that runs the agent"),
}


class Deps:
    """The type that the deps of a run must have, checked as far as Python can."""

    __slots__ = ("_class", "_type", "is_declared")

    def __init__(self, deps_type: Any) -> None:
        self.is_declared = deps_type is not None
        self._type = deps_type
        self._class = get_origin(deps_type) if isinstance(deps_type, GenericAlias) else deps_type
        try:
            isinstance(None, self._class or object)
        except TypeError:  # a protocol or a TypedDict, which isinstance cannot check
            self._class = object
        if self.is_declared and not (isinstance(deps_type, type | UnionType) or get_origin(deps_type)):
            raise ConfigError(f"deps_type={deps_type!r}: use a type, such as the class of the deps")

    def check(self, deps: Any, agent: str, *, needed: bool) -> None:
        """Raise a `ConfigError` for deps of the wrong type, or for missing deps that are `needed`."""
        if not self.is_declared or self._fits(deps) or (deps is None and not needed):
            return
        name = getattr(self._type, "__name__", None) or str(self._type)
        if deps is None:
            raise ConfigError(f"the agent {agent!r} needs deps of type {name}: pass deps= to the run")
        raise ConfigError(
            f"the agent {agent!r} needs deps of type {name}, and was given {type(deps).__name__}"
        )

    def _fits(self, deps: Any) -> bool:
        return isinstance(deps, self._class) and (deps is not None or self._class is not object)


def run_options(given: Mapping[str, Any]) -> RunOptions:
    """The options of a run. A wrong type or an unknown name is a `ConfigError`."""
    if not given:
        return NO_OPTIONS
    for name, value in given.items():
        check = _RUN_CHECKS.get(name)
        if check is not None and value is not None and not isinstance(value, check[0]):
            raise ConfigError(f"{name}={value!r}: use {check[1]}")
        if name in _MEMBERS and value is not None and not hasattr(value, _MEMBERS[name][0]):
            raise ConfigError(f"{name}={value!r}: use {_MEMBERS[name][1]}")
    try:
        return RunOptions(**given)
    except TypeError:
        if "history" in given:  # only a resumed run has it here
            raise ConfigError("an interrupted run has its history already; leave history= out") from None
        raise unknown_keyword("run", given, (*option_names(RunOptions), "history"), AGENT) from None


def option_names(options: type) -> list[str]:
    """The names of the options that users may pass."""
    return [one.name for one in fields(options) if one.name not in _INTERNAL]


def agent_options(given: Mapping[str, Any]) -> AgentOptions:
    """The options of a runtime. A wrong type or an unknown name is a `ConfigError`."""
    if not given.keys() <= AgentOptions.__dataclass_fields__.keys():
        raise unknown_keyword("AgentRuntime", given, option_names(AgentOptions), AGENT)
    return AgentOptions(**given)


def signature_with(
    function: Callable[..., Any], options: type, defaults: Mapping[str, Any] | None = None
) -> inspect.Signature:
    """The signature of a function with its `**options` replaced by the fields of a class.

    `defaults` overrides defaults of the class, or adds parameters.
    """
    own = inspect.signature(function)
    parameters = {name: one for name, one in own.parameters.items() if one.kind is not one.VAR_KEYWORD}
    for name, one in _parameters_of(options).items():
        parameters.setdefault(name, one)
    for name, default in (defaults or {}).items():
        known = parameters.get(name)
        if known is None:
            parameters[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        else:
            parameters[name] = known.replace(default=default)
    return own.replace(parameters=[*parameters.values()])


@cache
def _parameters_of(options: type) -> Mapping[str, inspect.Parameter]:
    """The options that are a user's to give, as parameters of a function."""
    parameters: dict[str, inspect.Parameter] = {}
    for one in fields(options):
        if one.name not in _INTERNAL:
            factory: Any = one.default_factory
            default = one.default if factory is MISSING else factory()
            parameters[one.name] = inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=one.type
            )
    return parameters


def as_sinks(events: Sinks) -> tuple[EventSink, ...]:
    """One sink, several or none, as a tuple."""
    if events is None:
        return ()
    given: Any = events
    # isinstance() with a protocol takes ten times as long.
    if hasattr(given, "emit"):
        return (given,)
    sinks: tuple[Any, ...] = tuple(given) if hasattr(given, "__iter__") else (given,)
    for sink in sinks:
        if not hasattr(sink, "emit"):
            raise ConfigError(f"{sink!r} is not an event sink; pass an object with emit(event), or several")
    return sinks


_ids: list[str] = []  # random ids, made many at a time: one system call for each id takes longer
after_fork(_ids.clear)


def random_id() -> str:
    """A random id for a run."""
    try:
        return _ids.pop()
    except IndexError:
        drawn = os.urandom(16 * 64).hex()
        _ids.extend(drawn[start : start + 32] for start in range(32, len(drawn), 32))
        return drawn[:32]


def memory_in(options: dict[str, Any]) -> RunMemory | None:
    """Remove the conversation from the options of a run, and return it."""
    given = options.pop("conversation", None)
    if given is None:
        return None
    from .memory.stores import RunMemory  # loaded with the first conversation

    if isinstance(given, RunMemory):
        return given
    raise ConfigError(
        f"conversation={given!r}: pass a Conversation, or one that a store opened: "
        f"SqliteConversations(path).open(id)"
    )
