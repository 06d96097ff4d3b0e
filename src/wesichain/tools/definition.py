"""Tool: the base class of all tools, and `TypedTool`, whose subclasses define a tool as a class."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

from typing_extensions import TypedDict, Unpack, override

from wesichain._elsewhere import TOOL, likely
from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import Value, force_setattr
from wesichain.errors import InvalidArgsError, ToolDefinitionError
from wesichain.platform.processes import CAN_FORK, LIMITS_MEMORY

from .context import DepsT_contra, RunContext, ToolContext
from .json_schema.issues import Issue, RejectedError, shorten
from .labels import ToolLabels, Trust, labels_of

if TYPE_CHECKING:
    from .schema.plan import SchemaPlan

Args = TypeVar("Args")
Result = TypeVar("Result")
Effect: TypeAlias = Literal["pure", "idempotent", "once"]
OnEnd: TypeAlias = Literal["wait", "leave", "cancel"]
Unique: TypeAlias = Callable[[Any], str]
Reconcile: TypeAlias = Callable[[str, Any], Any]
Approvers: TypeAlias = Callable[[Any, RunContext[Any], Any], bool]
Approval: TypeAlias = bool | Callable[[Any], bool] | Callable[[RunContext[Any], Any], bool]

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"  # compiled with the first tool
_MAX_MESSAGE = 2_000


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_function(value: Any) -> bool:
    return value is None or callable(value)


_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "timeout": (
        lambda value: isinstance(value, int | float) and not _is_flag(value) and value > 0,
        "a number of seconds above 0 (math.inf: no limit)",
    ),
    "effect": (lambda value: value in ("pure", "idempotent", "once"), "'pure', 'idempotent' or 'once'"),
    "approval": (lambda value: _is_flag(value) or callable(value), "a bool, or a rule over the arguments"),
    "isolate": (lambda value: _is_flag(value) or isinstance(value, Isolation), "a bool, or Isolation(...)"),
    "sequential": (_is_flag, "a bool"),
    "blocking": (_is_flag, "a bool"),
    "external": (_is_flag, "a bool"),
    "background": (_is_flag, "a bool"),
    "on_end": (lambda value: value in ("wait", "leave", "cancel"), "'wait', 'leave' or 'cancel'"),
    "max_output": (
        lambda value: isinstance(value, int) and not _is_flag(value) and value > 0,
        "a number of bytes above 0",
    ),
    "unique": (_is_function, "a function of the arguments that returns a text"),
    "reconcile": (_is_function, "a function of the text of unique= and the arguments"),
    "approvers": (_is_function, "a rule over (identity, ctx, args), such as four_eyes"),
    "trust": (lambda value: value in ("inside", "outside"), "'inside' or 'outside'"),
}


class Isolation(Value):
    """The limits of an isolated tool: `@tool(isolate=Isolation(memory_mb=256, env=("API_KEY",)))`.

    `memory_mb` limits the memory beyond that of the interpreter, `cpu_seconds` the CPU time, and `file_mb`
    the size of a file that is written; each limit applies to every process of the tool separately. `env`
    contains the names of the environment variables that are passed to the tool.
    """

    memory_mb: int | None = None
    cpu_seconds: int | None = None
    env: tuple[str, ...] = ()
    file_mb: int | None = None

    def __post_init__(self) -> None:
        for name in ("memory_mb", "cpu_seconds", "file_mb"):
            value: Any = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ToolDefinitionError(f"Isolation: {name} is {value!r:.80}; use a whole number above 0")
        names: Any = self.env
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ToolDefinitionError(
                f"Isolation: env is {names!r:.80}; use a tuple of names of variables, such as ('API_KEY',)"
            )
        given: tuple[Any, ...] = tuple(names)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]  # any value at all
        for name in given:
            if not isinstance(name, str) or not (name.isascii() and name.isidentifier()):
                raise ToolDefinitionError(
                    f"Isolation: env has {name!r:.80}, which is not the name of a variable"
                )
        force_setattr(self, "env", given)


class ToolWarning(UserWarning):
    """Warns of a tool that works, but could be described or used better."""


class ToolOptions(TypedDict, total=False):
    """The options that every kind of tool has."""

    timeout: float
    effect: Effect
    approval: Approval
    isolate: bool | Isolation
    sequential: bool
    max_output: int
    blocking: bool
    external: bool
    background: bool
    on_end: OnEnd
    unique: Unique | None
    reconcile: Reconcile | None
    approvers: Approvers | None
    trust: Trust


class Parts(NamedTuple):
    """The functions of a call, in the fastest form that the tool has.

    `check` may raise any exception for arguments that `Tool.check` has to decide on. With `by_name`, `call`
    takes the arguments as keywords and no context; with `context_first` (async tools only), the context and
    then the keywords.
    """

    check: Callable[[Any], Any]
    call: Callable[..., Any]
    render: Callable[[Any], JsonValue]
    by_name: bool = False
    context_first: bool = False


class Tool(ABC, Generic[DepsT_contra]):
    """A tool. Make one with `@tool`, `TypedTool` or `JsonTool`.

    `timeout` limits a call in seconds. `effect` says whether a call may be run again: it has no side effects
    ("pure"), repeating it does no harm ("idempotent"), or it must not be repeated ("once"). `approval`
    requires human approval, always or if a function of the checked arguments returns True. `isolate` runs
    the tool in a separate process. `sequential` prevents other calls of the same step from running at the
    same time. `max_output` limits the result, in bytes of JSON. `blocking=False` is for a sync function that
    returns at once and can run on the event loop. An `external` tool is not run: the run is interrupted
    until its result is provided. A call of a `background` tool answers at once, and its result comes as a
    message; `on_end` says what becomes of it when the run would end: the run waits for it ("wait"), or it goes
    on alone ("leave"), or it is cancelled. `unique` names what a `once` call does, such as "charge:order-42": it
    is done once in all runs of the journals; where its outcome is unknown, `reconcile` says what happened.
    `approvers` is a rule of who may approve a call. `trust="outside"` says that its results are text of strangers (see `Flow`).
    """

    timeout: float = 30.0
    effect: Effect = "idempotent"
    approval: Approval = False
    isolate: bool | Isolation = False
    sequential: bool = False
    max_output: int = 262_144
    blocking: bool = True
    external: bool = False
    background: bool = False
    on_end: OnEnd = "wait"
    unique: Unique | None = None
    reconcile: Reconcile | None = None
    approvers: Approvers | None = None
    trust: Trust = "inside"
    is_agent: bool = False  # it runs another agent, which is resumed after an interruption
    agents: tuple[Any, ...] = ()  # the agents that it can run
    runs_programs: bool = False  # it can make many calls of other tools at once
    tools: tuple[Tool, ...] = ()  # those that its programs can call

    name: str = ""
    description: str = ""
    takes_context: bool = True  # `call` uses the context
    is_async: bool = True  # `call` returns a coroutine; otherwise it blocks, and is run in a thread

    @abstractmethod
    def plan(self) -> SchemaPlan:
        """Return how the tool is described, checked and rendered. Raises `ToolDefinitionError`."""

    @abstractmethod
    def call(self, args: Any, ctx: ToolContext[DepsT_contra] | None) -> Any:
        """Run the tool; returns a coroutine, or the value itself (see `is_async`)."""

    @property
    def spec(self) -> ToolSpec:
        """The description for a model."""
        return self.plan().spec

    @cached_property
    def labels(self) -> ToolLabels:
        """What its annotations say of the text in its results, and of its parameters."""
        return labels_of(self)

    @property
    def signature(self) -> str:
        """The signature in one line: `add(a: int, b: int = 2)`."""
        return self.plan().usage

    @property
    def returns(self) -> Mapping[str, Any] | None:
        """The JSON schema of the result, if one is declared."""
        return self.plan().returns()

    def check(self, args: JsonValue) -> Any:
        """Return the arguments as `call` takes them. Raises `InvalidArgsError`. Has no side effects."""
        try:
            return self.plan().check(args)
        except RejectedError as error:
            raise self.rejected(error.issues) from error.__cause__ or error

    def render(self, value: Any) -> JsonValue:
        """Convert the return value of `call` to JSON. Raises `ToolSerializationError`."""
        return self.plan().render(value)

    def is_waiting(self, key: str) -> bool:
        """Whether the call with this idempotency key is open in this process and waits for an answer."""
        del key
        return False

    def parts(self) -> Parts:
        """Return the functions of a call; a tool may have faster ones than its methods."""
        plan = self.plan()
        return Parts(plan.quick or plan.check, self.call, plan.render)

    def configure(self, name: str, description: str, **options: Unpack[ToolOptions]) -> None:
        """Set and check the options that all tools have. Raises `ToolDefinitionError`."""
        given: Any = name
        if not isinstance(given, str) or not re.fullmatch(_NAME, given):
            raise ToolDefinitionError(
                f"tool {shorten(str(name))!r}: a tool's name is a letter or '_' and then up to 63 letters, "
                f"digits, '_', '-' and '.'; pass name=..."
            )
        self.name = name
        self.description = description
        for option, value in options.items():
            if option not in _OPTIONS:
                hint = likely(option, ("name", "description", *_OPTIONS), TOOL)
                raise ToolDefinitionError(f"tool {name!r}: there is no option {option!r}; {hint}")
            setattr(self, option, value)
        for option, (is_right, expected) in _OPTIONS.items():
            value = getattr(self, option)
            if not is_right(value):
                raise ToolDefinitionError(f"tool {name!r}: {option} is {value!r:.80}; use {expected}")
        if (self.unique or self.reconcile) and self.effect != "once":
            raise ToolDefinitionError(
                f"tool {name!r}: unique= and reconcile= are for what is done once; add effect='once'"
            )
        if self.approvers is not None and not self.approval:
            raise ToolDefinitionError(f"tool {name!r}: approvers= says who may approve; add approval=True")
        if self.isolate and not CAN_FORK:
            raise ToolDefinitionError(
                f"tool {name!r}: isolate= needs Linux or macOS; leave it out, or run the program in WSL"
            )
        if isinstance(self.isolate, Isolation) and self.isolate.memory_mb is not None and not LIMITS_MEMORY:
            raise ToolDefinitionError(
                f"tool {name!r}: Isolation(memory_mb=) needs Linux, because this system does not limit the "
                f"memory of a process; leave it out here"
            )
        if self.isolate and self.external:
            raise ToolDefinitionError(f"tool {name!r}: an external tool is not run; leave isolate= out")
        if self.isolate and not self.blocking:
            raise ToolDefinitionError(
                f"tool {name!r}: isolate= runs it in a process, blocking=False on the event loop; choose one"
            )

    def rejected(self, issues: list[Issue]) -> InvalidArgsError:
        """Return the error for invalid arguments, with a message for the model."""
        texts = tuple(shorten(str(issue), 300) for issue in issues[:10])
        lines = [f"the arguments for {self.name!r} are not valid:", *(f"- {text}" for text in texts)]
        if len(issues) > len(texts):
            lines.append(f"- and {len(issues) - len(texts)} more")
        usage = f"Use it as: {shorten(self.signature, 600)}"
        message = shorten("\n".join(lines), _MAX_MESSAGE - len(usage) - 1)
        return InvalidArgsError(f"{message}\n{usage}", tool_name=self.name, issues=texts)


class Id:
    """`order: Annotated[str, Id]`: the value is the identifier of something that exists.

    The schema contains `"format": "id"`. Models that support it can only use values from the conversation.
    """

    FORMAT: Final = "id"

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(core), "format": cls.FORMAT}


class TypedTool(Tool[DepsT_contra], Generic[Args, Result, DepsT_contra]):
    """Subclass with the two types, set `name` and `description`, write `run`.

    A third type is that of the run's deps: `TypedTool[Args, Result, Desk]`.

    The options of `@tool` are class attributes here. `Args` is a pydantic model, a dataclass or a
    TypedDict; `run` may also be a plain function, and then runs in a thread.
    """

    @abstractmethod
    def run(self, args: Args, ctx: ToolContext[DepsT_contra]) -> Awaitable[Result] | Result:
        """Do what the tool does."""

    @override
    def call(self, args: Args, ctx: ToolContext[DepsT_contra] | None) -> Any:
        return self.run(args, ctx or ToolContext[Any]())

    def types(self) -> tuple[Any, Any]:
        """Return the types of its arguments and its result; override it for types created at run time."""
        return _types(type(self))

    @override
    def plan(self) -> SchemaPlan:
        return self._plan

    @cached_property
    def _plan(self) -> SchemaPlan:  # created at first use: a subclass may have its own __init__
        from .schema.plan import plan_types  # it loads pydantic
        from .schema.signature import read_docstring

        cls = type(self)
        description = self.description or read_docstring(cls.__doc__).description
        self.configure(self.name if _has_name(self) else cls.__name__, description)
        self.is_async = inspect.iscoroutinefunction(cls.run)
        args, result = self.types()
        return plan_types(
            args, result, name=self.name, description=self.description, max_output=self.max_output
        )


def _has_name(tool: Tool) -> bool:
    """Whether the tool, its class or a base class sets a name, even if it is empty."""
    holders = [tool, *(cls for cls in type(tool).__mro__ if cls is not Tool)]
    return any("name" in vars(holder) for holder in holders)


def _types(cls: type) -> tuple[Any, Any]:
    """Return the types in `TypedTool[Args, Result]`, of the class or a base class."""
    for ancestor in cls.__mro__:
        for base in getattr(ancestor, "__orig_bases__", ()):
            found = get_args(base)
            if get_origin(base) is TypedTool and not any(isinstance(item, TypeVar) for item in found):
                return found[0], found[1]
    raise ToolDefinitionError(
        f"{cls.__name__} has no types; write class {cls.__name__}(TypedTool[Args, Result])"
    )
