"""Visible log: the part of a run's log that is sent to the model, and the parts that may be cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from wesichain.core import Message, Role
from wesichain.core.internal import Cut, LogView
from wesichain.errors import ConfigError

from .tokens import CountTokens, count_each, estimate_tokens

_SHORT = 40  # tokens: results up to this size are not cleared


class VisibleLog:
    """The part of a run's log that the model sees after the cuts so far. A place is an index in the log.

    The log is divided into units, which are kept or cut as a whole: a reply with the results of its calls and
    the notes on it; before the task, a question with all that followed it. The instructions and the task are
    not in any unit: they are always kept. The cost of `take` is linear in the new messages, that of a cut in
    the removed messages, plus a copy of the remaining list.
    """

    __slots__ = (
        "_begins_next", "_count", "_fixed", "_fixed_tokens", "_has_unit", "_long_results", "_messages",
        "_places", "_replaced", "_sizes", "_starts", "length", "quiet", "task", "tokens",
    )  # fmt: skip

    def __init__(self, task: int, count_tokens: CountTokens = estimate_tokens, *, quiet: int = -1) -> None:
        """`task` is the place of the run's task; up to `quiet` tokens, no view is called."""
        self.task = task
        self.quiet = quiet
        self.length = 0  # of the log
        self.tokens = 0  # of the visible messages
        self._count = count_tokens
        self._messages: list[Message] = []
        self._sizes: list[int] = []  # of the messages, in tokens
        self._places: list[int] = []  # of the messages that are indexed so far
        self._fixed_tokens = 0
        self._fixed: list[int] = []  # places
        self._starts: list[int] = []  # the places where units begin
        self._long_results: list[int] = []  # the places of long results that were not replaced
        self._replaced: set[int] = set()  # the places with another message than the log
        self._has_unit = False  # whether there is a unit
        self._begins_next = False  # whether the next message begins a unit

    @property
    def messages(self) -> LogView[Message]:
        """The messages in the next request."""
        return LogView(self._messages, len(self._messages))

    def take(self, messages: Sequence[Message]) -> None:
        """Add new messages of the log."""
        self._messages += messages
        self.length += len(messages)
        self.tokens += count_each(messages, self._count, self._sizes)

    @property
    def fixed_tokens(self) -> int:
        """The tokens of the instructions and the task."""
        self._index()
        return self._fixed_tokens

    def _index(self) -> None:
        """Index the new messages. This is done when it is needed: most steps of most runs need no units."""
        task, start = self.task, len(self._places)
        place = self.length - (len(self._messages) - start)
        for message, size in zip(self._messages[start:], self._sizes[start:], strict=True):
            role = message.role
            self._places.append(place)
            if role is Role.TOOL and size > _SHORT:
                self._long_results.append(place)
            if role is Role.SYSTEM or place == task:
                self._fixed.append(place)
                self._fixed_tokens += size
                self._begins_next = True
            elif self._begins_unit(role, place):
                self._starts.append(place)
                self._has_unit, self._begins_next = True, False
            place += 1

    def _begins_unit(self, role: Role, place: int) -> bool:
        begins = self._begins_next or role is (Role.USER if place < self.task else Role.ASSISTANT)
        return not self._has_unit or (begins and role is not Role.TOOL)

    # --- what may be cut -------------------------------------------------------------------------------

    def results(self, keep: int) -> list[tuple[int, Message]]:
        """The long results that were not replaced, without the newest `keep` and those of the last reply."""
        self._index()
        newest = self._starts[-1] if self._starts else 0
        count = min(len(self._long_results) - keep, bisect_left(self._long_results, newest))
        return [
            (place, self._messages[bisect_left(self._places, place)])
            for place in self._long_results[: max(0, count)]
        ]

    def tool_results(self) -> list[tuple[int, Message, int]]:
        """The visible tool results, each with its place and its tokens."""
        self._index()
        shown = zip(self._places, self._messages, self._sizes, strict=True)
        return [(place, message, size) for place, message, size in shown if message.role is Role.TOOL]

    def oldest(self, tokens: int) -> list[tuple[int, int]]:
        """The pieces of the oldest units with at least this many tokens, except the run's last unit."""
        self._index()
        starts, allowed = self._starts, len(self._starts)
        if starts and starts[-1] > self.task:
            allowed -= 1
        freed, gone, index = 0, 0, bisect_left(self._places, starts[0]) if starts else 0
        end = 0
        while gone < allowed and freed < tokens:
            gone += 1
            end = starts[gone] if gone < len(starts) else self.length
            while index < len(self._places) and self._places[index] < end:
                if not self._is_fixed(self._places[index]):
                    freed += self._sizes[index]
                index += 1
        return self._pieces(starts[0], end) if gone else []

    def visible_messages(self, pieces: Sequence[tuple[int, int]]) -> list[Message]:
        """The visible messages in some pieces of the log."""
        self._index()
        return [message for start, end in pieces for message in self._messages[self._between(start, end)]]

    def new_tokens(self, pieces: Sequence[tuple[int, int]]) -> int:
        """The tokens of the visible messages in these pieces that were not replaced."""
        self._index()
        found = 0
        for start, end in pieces:
            there = self._between(start, end)
            for place, size in zip(self._places[there], self._sizes[there], strict=True):
                found += 0 if place in self._replaced else size
        return found

    def _pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """The pieces from start to end, without the messages that are always kept."""
        inside = self._fixed[bisect_left(self._fixed, start) : bisect_left(self._fixed, end)]
        edges = [start - 1, *inside, end]
        pieces = [(before + 1, behind) for before, behind in pairwise(edges)]
        return [(first, behind) for first, behind in pieces if self._messages[self._between(first, behind)]]

    def _between(self, start: int, end: int) -> slice[int, int, None]:
        return slice(bisect_left(self._places, start), bisect_left(self._places, end))

    def _is_fixed(self, place: int) -> bool:
        found = bisect_left(self._fixed, place)
        return found < len(self._fixed) and self._fixed[found] == place

    # --- cutting ---------------------------------------------------------------------------------------

    def check(self, cut: Cut, view: str) -> None:
        """Raise `ConfigError`, with the view's name, for a cut that is not allowed."""
        self._index()
        why = self._problem(cut)
        if why:
            raise ConfigError(f"the context view {view!r} cuts messages {cut.start} to {cut.end}: {why}")

    def _problem(self, cut: Cut) -> str:
        there = self._between(cut.start, cut.end)
        if not 0 <= cut.start < cut.end <= self.length or len(cut.messages) > cut.end - cut.start:
            return f"the log has {self.length} messages, and one fits in a place; use existing places"
        if self._pieces(cut.start, cut.end) != [(cut.start, cut.end)]:
            return "the instructions and the task cannot be cut; cut around them"
        if self._has_same_form(there, cut.messages):
            return ""
        if any(message.role is Role.TOOL or message.tool_calls for message in cut.messages):
            return "calls and results cannot be added; use text instead"
        behind = self._places[there.stop] if there.stop < len(self._places) else None
        begins = self._begins_at(self._places[there.start]) or self._is_fixed(cut.start - 1)
        if not begins or not (behind is None or self._begins_at(behind) or self._is_fixed(behind)):
            return (
                "this separates a call from its result; cut whole units, as VisibleLog.oldest() returns them"
            )
        return ""

    def _begins_at(self, place: int) -> bool:
        found = bisect_left(self._starts, place)
        return found < len(self._starts) and self._starts[found] == place

    def _has_same_form(self, there: slice[int, int, None], messages: Sequence[Message]) -> bool:
        """Whether the messages have the roles and calls of those they replace."""
        old = self._messages[there]
        return len(old) == len(messages) and all(
            (then.role, then.tool_call_id, then.tool_calls) == (now.role, now.tool_call_id, now.tool_calls)
            for then, now in zip(old, messages, strict=True)
        )

    def cut(self, cut: Cut) -> None:
        """Replace a part of the visible log by other messages, or remove it."""
        self._index()
        there = self._between(cut.start, cut.end)
        sizes: list[int] = []
        added = count_each(cut.messages, self._count, sizes)
        places = range(cut.start, cut.start + len(sizes))
        same_form = self._has_same_form(there, cut.messages)
        self._replaced.difference_update(self._places[there])
        self._replaced.update(places)
        self.tokens += added - sum(self._sizes[there])
        # Earlier requests still use the old list.
        self._messages = self._messages.copy()
        self._messages[there] = cut.messages
        self._places[there] = places
        self._sizes[there] = sizes
        del self._long_results[
            bisect_left(self._long_results, cut.start) : bisect_left(self._long_results, cut.end)
        ]
        if not same_form:
            first, behind = bisect_left(self._starts, cut.start), bisect_left(self._starts, cut.end)
            self._starts[first:behind] = [cut.start] if sizes else []

    def cuts(self) -> tuple[Cut, ...]:
        """The minimal cuts that turn the log into the visible log."""
        self._index()
        found: list[Cut] = []
        expected = 0
        replaced: tuple[int, Message] | None = None
        for place, message in zip([*self._places, self.length], [*self._messages, None], strict=True):
            if replaced is not None:
                found.append(Cut(replaced[0], place, (replaced[1],)))
            elif place > expected:
                found.append(Cut(expected, place))
            replaced = (place, message) if message is not None and place in self._replaced else None
            expected = place + 1
        return tuple(found)
