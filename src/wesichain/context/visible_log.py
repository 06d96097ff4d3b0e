"""Seen: what the model of one run is shown now, and what of it may be cut out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from wesichain.core import Message, Role
from wesichain.core.internal import Cut, LogView
from wesichain.errors import ConfigError

from .tokens import CountTokens, count_each, estimate_tokens

_SHORT = 40  # tokens: a result that is no longer is not worth clearing


class VisibleLog:
    """The part of a run's log that its model still sees, after the cuts so far; messages go by their place.

    It is kept in units that stay or go whole: a reply with the results of its calls and the notes on it;
    before the task, a question with all that came of it. The instructions and the task are in none: they
    always stay. To take a message costs what that message costs; a cut costs what it cuts out, and a copy
    of the list of what is left.
    """

    __slots__ = (
        "_begun", "_count", "_fixed", "_fixed_tokens", "_fresh", "_messages", "_places", "_replaced",
        "_sizes", "_starts", "_whole", "length", "quiet", "task", "tokens",
    )  # fmt: skip

    def __init__(self, task: int, count_tokens: CountTokens = estimate_tokens, *, quiet: int = -1) -> None:
        """`task` is the place of the run's task; up to `quiet` tokens no view has anything to say."""
        self.task = task
        self.quiet = quiet
        self.length = 0  # messages of the log that were taken
        self.tokens = 0  # of all that is shown
        self._count = count_tokens
        self._messages: list[Message] = []
        self._sizes: list[int] = []  # of these, in tokens
        self._places: list[int] = []  # of these, up to the first that is not filed yet
        self._fixed_tokens = 0
        self._fixed: list[int] = []  # places
        self._starts: list[int] = []  # the places where units begin
        self._whole: list[int] = []  # the places of long results that are shown as they are
        self._replaced: set[int] = set()  # the places where something else is shown
        self._begun = False  # there was a unit
        self._fresh = False  # what comes next is a unit of its own

    @property
    def messages(self) -> LogView[Message]:
        """The messages in the next request."""
        return LogView(self._messages, len(self._messages))

    def take(self, messages: Sequence[Message]) -> None:
        """The log has grown."""
        self._messages += messages
        self.length += len(messages)
        self.tokens += count_each(messages, self._count, self._sizes)

    @property
    def fixed_tokens(self) -> int:
        """Those of the instructions and the task."""
        self._file()
        return self._fixed_tokens

    def _file(self) -> None:
        """Find the units in what was taken since: most steps of most runs need none of them."""
        task, start = self.task, len(self._places)
        place = self.length - (len(self._messages) - start)
        for message, size in zip(self._messages[start:], self._sizes[start:], strict=True):
            role = message.role
            self._places.append(place)
            if role is Role.TOOL and size > _SHORT:
                self._whole.append(place)
            if role is Role.SYSTEM or place == task:
                self._fixed.append(place)
                self._fixed_tokens += size
                self._fresh = True
            elif self._begins_unit(role, place):
                self._starts.append(place)
                self._begun, self._fresh = True, False
            place += 1

    def _begins_unit(self, role: Role, place: int) -> bool:
        begins = self._fresh or role is (Role.USER if place < self.task else Role.ASSISTANT)
        return not self._begun or (begins and role is not Role.TOOL)

    # --- what may go -----------------------------------------------------------------------------------

    def results(self, keep: int) -> list[tuple[int, Message]]:
        """The long results that are still shown, without the newest `keep` and those of the last reply."""
        self._file()
        newest = self._starts[-1] if self._starts else 0
        count = min(len(self._whole) - keep, bisect_left(self._whole, newest))
        return [
            (place, self._messages[bisect_left(self._places, place)])
            for place in self._whole[: max(0, count)]
        ]

    def tool_results(self) -> list[tuple[int, Message, int]]:
        """The tool results in the view, each with its position and its tokens."""
        self._file()
        shown = zip(self._places, self._messages, self._sizes, strict=True)
        return [(place, message, size) for place, message, size in shown if message.role is Role.TOOL]

    def oldest(self, tokens: int) -> list[tuple[int, int]]:
        """Where the oldest units are that have this many tokens together, or all but the run's last."""
        self._file()
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
        """The messages in the next request, of some pieces of the log."""
        self._file()
        return [message for start, end in pieces for message in self._messages[self._between(start, end)]]

    def new_tokens(self, pieces: Sequence[tuple[int, int]]) -> int:
        """The tokens of these messages as they are in the log."""
        self._file()
        found = 0
        for start, end in pieces:
            there = self._between(start, end)
            for place, size in zip(self._places[there], self._sizes[there], strict=True):
                found += 0 if place in self._replaced else size
        return found

    def _pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """From start to end, without what always stays."""
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
        """A cut that is not allowed is an error of the view."""
        self._file()
        why = self._flaw(cut)
        if why:
            raise ConfigError(f"the context view {view!r} cuts messages {cut.start} to {cut.end}: {why}")

    def _flaw(self, cut: Cut) -> str:
        there = self._between(cut.start, cut.end)
        if not 0 <= cut.start < cut.end <= self.length or len(cut.messages) > cut.end - cut.start:
            return f"the log has {self.length} messages, and a place holds one; use places that are there"
        if self._pieces(cut.start, cut.end) != [(cut.start, cut.end)]:
            return "the instructions and the task stay; cut around them"
        if self._has_same_form(there, cut.messages):
            return ""
        if any(message.role is Role.TOOL or message.tool_calls for message in cut.messages):
            return "calls and results cannot be made up; put text in their place"
        behind = self._places[there.stop] if there.stop < len(self._places) else None
        begins = self._begins_at(self._places[there.start]) or self._is_fixed(cut.start - 1)
        if not begins or not (behind is None or self._begins_at(behind) or self._is_fixed(behind)):
            return "this parts a call from its result; cut whole units, as VisibleLog.oldest() gives them"
        return ""

    def _begins_at(self, place: int) -> bool:
        found = bisect_left(self._starts, place)
        return found < len(self._starts) and self._starts[found] == place

    def _has_same_form(self, there: slice[int, int, None], messages: Sequence[Message]) -> bool:
        """Whether these are the same messages in other words."""
        old = self._messages[there]
        return len(old) == len(messages) and all(
            (then.role, then.tool_call_id, then.tool_calls) == (now.role, now.tool_call_id, now.tool_calls)
            for then, now in zip(old, messages, strict=True)
        )

    def cut(self, cut: Cut) -> None:
        """Show something else, or nothing, in place of a part of the log."""
        self._file()
        there = self._between(cut.start, cut.end)
        sizes: list[int] = []
        added = count_each(cut.messages, self._count, sizes)
        places = range(cut.start, cut.start + len(sizes))
        same_form = self._has_same_form(there, cut.messages)
        self._replaced.difference_update(self._places[there])
        self._replaced.update(places)
        self.tokens += added - sum(self._sizes[there])
        # Requests that were made look into the old list.
        self._messages = self._messages.copy()
        self._messages[there] = cut.messages
        self._places[there] = places
        self._sizes[there] = sizes
        del self._whole[bisect_left(self._whole, cut.start) : bisect_left(self._whole, cut.end)]
        if not same_form:
            first, behind = bisect_left(self._starts, cut.start), bisect_left(self._starts, cut.end)
            self._starts[first:behind] = [cut.start] if sizes else []

    def cuts(self) -> tuple[Cut, ...]:
        """The fewest cuts that turn the log into the current view, whatever was cut when."""
        self._file()
        found: list[Cut] = []
        expected = 0
        held: tuple[int, Message] | None = None
        for place, message in zip([*self._places, self.length], [*self._messages, None], strict=True):
            if held is not None:
                found.append(Cut(held[0], place, (held[1],)))
            elif place > expected:
                found.append(Cut(expected, place))
            held = (place, message) if message is not None and place in self._replaced else None
            expected = place + 1
        return tuple(found)
