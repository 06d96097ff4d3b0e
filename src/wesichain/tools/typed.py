"""TypedTool: a tool as a class, with the types of its arguments and result as parameters."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

from typing_extensions import override

from wesichain.errors import ToolDefinitionError

from .context import DepsT_contra, ToolContext
from .definition import Tool

if TYPE_CHECKING:
    from .schema.plan import SchemaPlan

Args = TypeVar("Args")
Result = TypeVar("Result")


class TypedTool(Tool[DepsT_contra], Generic[Args, Result, DepsT_contra]):
    """Subclass with the two types, set `name` and `description`, write `run`.

    A third type says what deps it wants of the run: `TypedTool[Args, Result, Desk]`.

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
        """The types of its arguments and its result; a tool that is made at run time says them here."""
        return _types(type(self))

    @override
    def plan(self) -> SchemaPlan:
        return self._plan

    @cached_property
    def _plan(self) -> SchemaPlan:  # made at first use: a subclass may have an __init__ of its own
        from .schema.plan import plan_types  # it loads pydantic
        from .schema.signature import read_docstring

        cls = type(self)
        description = self.description or read_docstring(cls.__doc__).description
        self.configure(self.name if _says_its_name(self) else cls.__name__, description)
        self.is_async = inspect.iscoroutinefunction(cls.run)
        takes, gives = self.types()
        return plan_types(
            takes, gives, name=self.name, description=self.description, max_output=self.max_output
        )


def _says_its_name(tool: Tool) -> bool:
    """Whether a name was set, be it "", by the tool, its class or one that it inherits from."""
    holders = [tool, *(cls for cls in type(tool).__mro__ if cls is not Tool)]
    return any("name" in vars(holder) for holder in holders)


def _types(cls: type) -> tuple[Any, Any]:
    """The types in `TypedTool[Args, Result]`, on the class or on one that it inherits from."""
    for ancestor in cls.__mro__:
        for base in getattr(ancestor, "__orig_bases__", ()):
            found = get_args(base)
            if get_origin(base) is TypedTool and not any(isinstance(item, TypeVar) for item in found):
                return found[0], found[1]
    raise ToolDefinitionError(
        f"{cls.__name__} does not say its types: class {cls.__name__}(TypedTool[Args, Result])"
    )
