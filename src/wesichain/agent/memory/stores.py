"""Conversations: the tasks and answers of earlier runs, as one object or in a store of many."""

from __future__ import annotations

import builtins
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, Protocol, TypeAlias, runtime_checkable

from typing_extensions import override

from wesichain.context import estimate_tokens, tokens_of
from wesichain.core import Message, Role, from_json, to_json
from wesichain.core.internal import Value
from wesichain.errors import CodecError, ConfigError, ConversationError


@runtime_checkable
class RunMemory(Protocol):
    """Memory that a run reads before it begins, and extends with its turn when it has completed."""

    async def read(self) -> Sequence[Message]:
        """The messages for the next run, the oldest first."""
        ...

    async def extend(self, *messages: Message) -> None:
        """Store the messages of one turn: all of them or none, and none of another turn between them."""
        ...


class Conversation:
    """The user's messages and the final answers of earlier runs, without the steps between them.

    With `max_tokens`, a run gets the newest messages that fit. System messages are always kept, and a call
    and its result are kept together.
    """

    keeps_keys = True

    def __init__(
        self, max_tokens: int | None = None, *, count_tokens: Callable[[str], int] = estimate_tokens
    ) -> None:
        self._window = HistoryWindow(max_tokens, count_tokens)
        self._messages: list[Message] = []
        self._added: set[int] = set()  # the numbers of turns that were added with a key

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, whether they fit `max_tokens` or not."""
        return tuple(self._messages)

    def add(self, *messages: Message) -> None:
        self._messages.extend(messages)

    def clear(self) -> None:
        self._messages.clear()
        self._added.clear()

    def window(self) -> tuple[Message, ...]:
        """The messages for the next run."""
        return self._window.fit(self._messages)

    async def read(self) -> Sequence[Message]:
        """The messages for the next run."""
        return self.window()

    async def extend(self, *messages: Message) -> None:
        """Add the messages of a run's turn."""
        self.add(*messages)

    async def extend_once(self, key: str, *messages: Message) -> bool:
        """Add the messages of a run's turn, unless they were added with this key before."""
        number = turn_number(messages, key)
        if number in self._added:
            return False
        self._added.add(number)
        self.add(*messages)
        return True


class HistoryWindow(Value):
    """The part of a conversation that fits into `max_tokens`; None is no limit.

    System messages are always kept, and a call and its result are kept together.
    """

    max_tokens: int | None
    count_tokens: Callable[[str], int]

    def __post_init__(self) -> None:
        given: Any = self.max_tokens
        if given is not None and not (isinstance(given, int) and given >= 0):
            raise ConfigError(f"max_tokens={given!r}: use 0 or more, or None for no limit")

    def fit(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The newest messages that fit, up to the first that does not."""
        if self.max_tokens is None:
            return tuple(messages)
        units = _units(messages)
        room = self.max_tokens - sum(self._cost(unit) for unit in units if _is_system(unit))
        kept: list[list[Message]] = []
        full = False
        for unit in reversed(units):
            if _is_system(unit):
                kept.append(unit)
                continue
            if not full:
                room -= self._cost(unit)
                full = room < 0
            if not full:
                kept.append(unit)
        return tuple(message for unit in reversed(kept) for message in unit)

    def _cost(self, unit: Iterable[Message]) -> int:
        return sum(tokens_of(message, self.count_tokens) for message in unit)


def _is_system(unit: list[Message]) -> bool:
    return unit[0].role is Role.SYSTEM


def _units(messages: Iterable[Message]) -> list[list[Message]]:
    """The messages in pieces that are kept or dropped whole: a call goes with its results."""
    units: list[list[Message]] = []
    for message in messages:
        if message.role is Role.TOOL and units and (units[-1][0].tool_calls):
            units[-1].append(message)
        else:
            units.append([message])
    return units


Turn: TypeAlias = tuple[Message, ...]

_PAGE = 32  # turns that a window is first sought in; then four times as many, and so on


class Conversations(ABC):
    """A store of conversations by id. A conversation is a list of turns, the messages that one run added.

    A turn is stored as a whole or not at all. All readers see the turns in the same order.
    """

    keeps_keys = False  # whether `append_once` knows the keys of stored turns

    def open(
        self,
        id: str,
        max_tokens: int | None = None,
        *,
        count_tokens: Callable[[str], int] = estimate_tokens,
    ) -> StoredConversation:
        """The conversation with this id, which may be new. Nothing is read or written yet."""
        return StoredConversation(self, id, HistoryWindow(max_tokens, count_tokens))

    @abstractmethod
    async def append(self, id: str, turn: Turn) -> None:
        """Add a turn to a conversation; the first turn creates it."""

    async def append_once(self, id: str, turn: Turn, *, key: str) -> bool:  # noqa: ARG002  # no keys are kept
        """Add a turn, unless the same turn was added with this key before; return whether it was added.

        Optional: a store that says `keeps_keys = True` does so; by default the turn is always added.
        """
        await self.append(id, turn)
        return True

    @abstractmethod
    async def read(self, id: str, *, newest: int | None = None) -> Sequence[Turn]:
        """The turns of a conversation, the oldest first; empty if it is unknown.

        With `newest`, only this number of the newest turns, and all older turns that have a system message.
        """

    @abstractmethod
    async def list(self) -> builtins.list[str]:
        """The ids of all conversations, the most recently extended first."""

    @abstractmethod
    async def delete(self, id: str) -> None:
        """Delete a conversation, if it exists."""


class StoredConversation:
    """One conversation of a store. Concurrent runs may read and extend it."""

    def __init__(self, store: Conversations, id: str, window: HistoryWindow) -> None:
        self.id = _checked_id(id)
        self.keeps_keys = store.keeps_keys
        self._store = store
        self._window = window

    async def read(self) -> Sequence[Message]:
        """The messages for the next run: all of them, or the newest that fit `max_tokens`."""
        window = self._window
        newest = None if window.max_tokens is None else _PAGE
        while True:
            turns = await self._store.read(self.id, newest=newest)
            messages = [message for turn in turns for message in turn]
            fitting = window.fit(messages)
            # Older messages are dropped first: if one did not fit, those that were not read do not either.
            if newest is None or len(turns) < newest or len(fitting) < len(messages):
                return fitting
            newest *= 4

    async def extend(self, *messages: Message) -> None:
        """Add messages as one turn: all of them or none, and none of another run between them."""
        self._check(messages)
        if messages:
            await self._store.append(self.id, messages)

    async def extend_once(self, key: str, *messages: Message) -> bool:
        """Add messages as one turn, unless they were added with this key before; return whether they were.

        `key` is the id of the run that the turn is of: several processes may add the turn of one run.
        """
        self._check(messages)
        return bool(messages) and await self._store.append_once(self.id, messages, key=key)

    def _check(self, messages: Turn) -> None:
        for message in messages:
            given: Any = message
            if not isinstance(given, Message):
                raise ConfigError(
                    f"conversation {self.id!r}: {given!r} is not a Message; use Message(Role.USER, ...)"
                )


def _checked_id(id: Any) -> str:
    if not isinstance(id, str):
        raise ConfigError(f"the id of a conversation is a text, not {id!r}")
    try:
        id.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the id {id!r} holds a lone surrogate, which is not a character") from None
    return id


class MemoryConversations(Conversations):
    """Stores conversations in the memory of the process, for any number of threads and event loops."""

    keeps_keys = True

    def __init__(self) -> None:
        self._turns: dict[str, list[Turn]] = {}  # the most recently extended conversation is last
        self._added: set[tuple[str, int]] = set()  # conversations, and turns added with a key
        self._lock = threading.RLock()

    @override
    async def append(self, id: str, turn: Turn) -> None:
        with self._lock:
            turns = self._turns.pop(id, [])
            turns.append(turn)
            self._turns[id] = turns

    @override
    async def append_once(self, id: str, turn: Turn, *, key: str) -> bool:
        added = id, turn_number(turn, key)
        with self._lock:
            if added in self._added:
                return False
            self._added.add(added)
            await self.append(id, turn)
            return True

    @override
    async def read(self, id: str, *, newest: int | None = None) -> Sequence[Turn]:
        with self._lock:
            turns = tuple(self._turns.get(id, ()))
        if newest is None or newest >= len(turns):
            return turns
        cut = len(turns) - newest
        return (*(turn for turn in turns[:cut] if has_system(turn)), *turns[cut:])

    @override
    async def list(self) -> builtins.list[str]:
        with self._lock:
            return [*reversed(self._turns)]

    @override
    async def delete(self, id: str) -> None:
        with self._lock:
            self._turns.pop(id, None)
            self._added = {added for added in self._added if added[0] != id}


# --- turns as text, for files and databases ---------------------------------------------------------


def has_system(turn: Turn) -> bool:
    """Whether the turn has a system message, which is always kept."""
    return any(message.role is Role.SYSTEM for message in turn)


def keeps_keys(memory: RunMemory) -> bool:
    """Whether a memory knows the keys of its turns, and adds a turn with a known key no second time."""
    return bool(getattr(memory, "keeps_keys", False))


async def add_turn(memory: RunMemory, turn: Turn, *, key: str) -> None:
    """Add the turn of a run; with a key only once, if the memory keeps keys."""
    if key and keeps_keys(memory):
        with_keys: Any = memory
        await with_keys.extend_once(key, *turn)
    else:
        await memory.extend(*turn)


def turn_number(turn: Turn, key: str) -> int:
    """The number of a turn that is added with a key: above zero and of 63 bits, as databases can store it."""
    digest = sha256(f"{key}\n{to_json(turn)}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1 | 1


def turn_to_text(turn: Turn, *, id: str) -> str:
    """Write a turn as text."""
    try:
        return to_json(turn)
    except CodecError as error:
        raise ConversationError(f"the conversation {id!r} cannot keep the turn: {error}") from error


def turn_of_text(text: str, *, id: str) -> Turn:
    """Read a turn from text; an error names the conversation."""
    try:
        return from_json(tuple[Message, ...], text)
    except CodecError as error:
        raise ConversationError(
            f"the conversation {id!r} has a turn that cannot be read: {error}; delete it, or restore it"
        ) from error
