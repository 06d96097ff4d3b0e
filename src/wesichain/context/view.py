"""Views: they decide which part of the log of a run is sent to its model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, cast, runtime_checkable

from typing_extensions import deprecated

from wesichain.core import LlmRequest, Message, ToolCallingLlm
from wesichain.core.internal import Cut, Value
from wesichain.errors import ConfigError

from .tokens import CountTokens, estimate_tokens

if TYPE_CHECKING:
    from .visible_log import VisibleLog


_RENAMED: Final = (
    "wesichain.context.Question is called ViewQuestion; wesichain.core.Question is another class"
)


class ViewQuestion(Value):
    """A model call that a view needs before it can cut, such as a summary, and the cuts for its reply.

    Without an `llm`, the run's own model is called. The call counts for the run's budget; in a replay, the
    reply is read from the log.
    """

    messages: tuple[Message, ...]
    cuts: Callable[[str], tuple[Cut, ...]]
    llm: ToolCallingLlm | None = None


@deprecated(_RENAMED)
class Question(ViewQuestion):
    """Deprecated name of `ViewQuestion`; `wesichain.core` has a `Question` too."""

    def __post_init__(self) -> None:
        warnings.warn(_RENAMED, DeprecationWarning, stacklevel=2)


class ViewRequest(LlmRequest):
    """A view's request before a step: `view` is the view's number, `llm` replaces the run's own model."""

    __always__: ClassVar[tuple[str, ...]] = ("view", "llm")

    view: int = 0
    llm: ToolCallingLlm | None = None


@runtime_checkable
class ContextView(Protocol):
    """Decides what is left out of the next request. It is called before each step, and has no state of a run.

    Its cuts must depend only on `seen`, so that a replay makes the same ones. It should cut rarely, and then
    a large part: a provider's prompt cache ends at the first change. A view with the attribute
    `inactive_below_tokens` is not called for requests of at most that many tokens. With `limit_tokens`, no
    request has more tokens: tool results are cut to fit, or the run fails.
    """

    @property
    def name(self) -> str: ...

    def reduce(self, seen: VisibleLog) -> Sequence[Cut] | ViewQuestion | None:
        """The cuts to make, or the model call that is needed first; None for no change."""
        ...


def are_views(given: Any) -> bool:
    """Whether the value is a list or tuple of views."""
    return isinstance(given, list | tuple) and all(map(_is_view, cast("Sequence[Any]", given)))


def _is_view(view: Any) -> bool:
    return not isinstance(view, type) and callable(getattr(view, "reduce", None)) and hasattr(view, "name")


def inactive_below(views: Iterable[ContextView]) -> int:
    """The tokens up to which none of the views cuts anything; -1 if one of them does not declare it.

    A subclass that only inherits the number may have another `reduce`, and is called.
    """
    return min(map(_inactive_below_tokens, views), default=-1)


def _inactive_below_tokens(view: Any) -> int:
    return view.inactive_below_tokens if "inactive_below_tokens" in vars(view.__class__) else -1


def counter_of(views: Iterable[ContextView]) -> CountTokens:
    """The token counter of the views; all must have the same, because they share one log."""
    counters = [found for view in views if (found := getattr(view, "count_tokens", None)) is not None]
    if any(counter is not counters[0] for counter in counters):
        raise ConfigError("the views of context=[...] have different count_tokens; use the same one for all")
    return counters[0] if counters else estimate_tokens
