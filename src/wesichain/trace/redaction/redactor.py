"""Redaction: secrets are taken out of events before any sink sees them.

Deterministic (equal input gives equal output, whatever was seen before) and idempotent (a redacted
text is left as it is), so that a recording that was redacted can still be replayed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from wesichain.core import (
    Event,
    JsonValue,
    LlmResponse,
    Message,
    ModelResponded,
    RunCompleted,
    RunStarted,
    StepStarted,
    Text,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
)
from wesichain.core.internal import RunEvent, is_array
from wesichain.errors import CodecError

from .rules import (
    environment_secrets,
    hide_secrets,
    is_placeholder,
    is_secret_name,
    may_hold_secret,
    placeholder,
)

T = TypeVar("T")
EventT = TypeVar("EventT", bound=Event)

_PASSES = 8
_KNOWN_TEXTS = 1024
_KNOWN_LENGTH = 1024
# Fields that route or measure. Ids stay, or two calls could become one. `token` is the one-time token of
# an approval: bound to its call, and of no use unless it reaches the person who decides.
_NOT_TEXT = frozenset(
    {"run_id", "step_id", "seq", "at", "scope", "id", "call_id", "tool_call_id", "checkpoint_id", "role",
     "finish_reason", "usage", "duration_ms", "token", "expires_at", "resumed", "data", "media_type"}
)  # fmt: skip


class Redactor:
    """Takes secrets out of texts, JSON data and events.

    Knows keys, tokens, `password=...` pairs, headers, credentials in URLs and PEM keys by their form,
    and the values of variables of the environment whose names look secret (8 characters or more), as
    they are when the redactor is made, or at the last `refresh`. `extra` is a function for more: text
    in, redacted text out.
    """

    __slots__ = ("_call", "_environ", "_extra", "_known", "_names", "_secrets", "_tools", "_variables")

    def __init__(
        self, extra: Callable[[str], str] | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._extra = extra
        self._environ = os.environ if environ is None else environ
        self._names: set[str] = set()  # names of fields that hold no secret
        self._look_around()

    def refresh(self) -> None:
        """Learn what variables the environment has got since, where it has more or fewer of them."""
        if len(self._environ) != self._variables:
            self._look_around()

    def _look_around(self) -> None:
        self._variables = len(self._environ)
        self._secrets = environment_secrets(self._environ)
        self._known: set[str] = set()  # short texts in which nothing was found
        self._call: ToolCall | None = None  # the last call in which nothing was found
        self._tools: tuple[ToolSpec, ...] | None = None  # the last tools

    def event(self, event: EventT) -> EventT:
        """The event without secrets: the same object where there were none."""
        try:
            if _looks[event.__class__](self, event):
                return event
        except RecursionError:
            pass  # what nests so deeply is replaced, below
        return cast("EventT", self._clean(event))

    def suspects(self, events: Sequence[Any]) -> list[int]:
        """The places of those events, or forms of events, that may hold a secret."""
        looks = _looks
        return [place for place, event in enumerate(events) if not looks[event.__class__](self, event)]

    def text(self, text: str) -> str:
        """The text without secrets."""
        if self._is_clean(text):
            return text
        for _ in range(_PASSES):
            cleaned = hide_secrets(text, self._secrets)
            cleaned = cleaned if self._extra is None else self._extra(cleaned)
            if cleaned == text:
                return text
            text = cleaned
        return placeholder("text")  # rules that undo each other: better nothing than a leak

    def value(self, value: JsonValue) -> JsonValue:
        """The JSON data without secrets, in keys as well; the same object where there were none."""
        try:
            return cast("JsonValue", self._clean(value))
        except RecursionError:
            return placeholder("text")

    # --- looking, quickly ------------------------------------------------------------------------

    def _is_clean(self, text: str) -> bool:
        """Whether the text certainly holds no secret."""
        known = self._known
        if text in known:
            return True
        if may_hold_secret(text, self._secrets):
            return False
        for secret in self._secrets:
            if secret in text:
                return False
        if self._extra is not None and self._extra(text) != text:
            return False
        if len(text) <= _KNOWN_LENGTH:
            if len(known) >= _KNOWN_TEXTS:
                known.clear()
            known.add(text)
        return True

    def _is_clean_start(self, event: RunStarted) -> bool:
        if (
            event.decisions
            or event.parts
            or not (self._is_clean(event.user_input) and self._is_clean(event.model))
        ):
            return False
        if event.tools is not self._tools:  # as in every run of an agent
            if not all(map(self._is_clean_spec, event.tools)):
                return False
            self._tools = event.tools
        return True

    def _is_clean_step(self, event: StepStarted) -> bool:
        for message in event.messages:  # noqa: SIM110  # the hot path: no generator
            if not self._is_clean_turn(message):
                return False
        return True

    def _is_clean_reply(self, event: ModelResponded) -> bool:
        reply = event.response
        return not (reply.parts or reply.omitted) and self._is_clean_turn(reply)

    def _is_clean_dispatch(self, event: ToolDispatched) -> bool:
        return event.call is self._call or self._is_clean_call(event.call)

    def _is_clean_result(self, event: ToolCompleted) -> bool:
        name, value = event.tool_name, event.value
        if event.parts or (name not in self._known and not self._is_clean(name)):
            return False
        return value.__class__ is int or self._is_clean_value(value)

    def _is_clean_end(self, event: RunCompleted) -> bool:
        return self._is_clean_value(event.output)

    # Where an ordinary run can be looked at quickly; at other events the slow look is good enough.
    LOOKS: ClassVar[dict[type, Callable[[Any, Any], bool]]] = {
        RunStarted: _is_clean_start,
        StepStarted: _is_clean_step,
        ModelResponded: _is_clean_reply,
        ToolDispatched: _is_clean_dispatch,
        ToolCompleted: _is_clean_result,
        RunCompleted: _is_clean_end,
    }

    def _is_clean_spec(self, spec: ToolSpec) -> bool:
        return (
            self._is_clean(spec.name)
            and self._is_clean(spec.description)
            and self._is_clean_value(spec.parameters)
        )

    def _is_clean_turn(self, turn: Message | LlmResponse) -> bool:
        text = turn.content
        if not isinstance(text, str):  # parts: the slow look is good enough
            return False
        if text and text not in self._known and not self._is_clean(text):
            return False
        for call in turn.tool_calls:
            if not self._is_clean_call(call):
                return False
        text = turn.reasoning
        return (not text or self._is_clean(text)) and (
            turn.opaque is None or self._is_clean_value(turn.opaque)
        )

    def _is_clean_call(self, call: ToolCall) -> bool:
        if call is self._call:  # three events of a step have it
            return True
        if (call.name in self._known or self._is_clean(call.name)) and self._is_clean_value(call.args):
            self._call = call
            return True
        return False

    def _is_clean_value(self, value: object) -> bool:
        kind = type(value)
        data: Any = value
        if kind is dict:
            known, names = self._known, self._names
            for key, item in data.items():
                if not (key in names or self._is_clean_name(key)):
                    return False
                kind = item.__class__
                if kind is str:
                    if not (item in known or self._is_clean(item)):
                        return False
                elif kind is not int and not self._is_clean_value(item):
                    return False
            return True
        if kind is str:
            return value in self._known or self._is_clean(data)
        if kind is list:
            if len(data) == 2 and type(data[0]) is str and is_secret_name(data[0]):
                return False
            for item in data:  # noqa: SIM110  # the hot path: no generator
                if not self._is_clean_value(item):
                    return False
            return True
        return kind is int or kind is float or kind is bool or value is None

    def _is_clean_name(self, name: object) -> bool:
        if type(name) is not str or is_secret_name(name) or not self._is_clean(name):
            return False
        if len(self._names) >= _KNOWN_TEXTS:
            self._names.clear()
        self._names.add(name)
        return True

    # --- changing --------------------------------------------------------------------------------

    def _clean(self, value: Any) -> Any:
        """Any value of an event without secrets; the same object where there were none."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._clean_object(cast("Mapping[str, Any]", value))
        if isinstance(value, list | tuple):
            return self._clean_items(cast("Any", value))
        if is_dataclass(value) and not isinstance(value, type):
            changes: dict[str, Any] = {}
            for name in _text_fields(type(value)):
                old = getattr(value, name)
                try:
                    new = self._clean(old)
                except RecursionError:
                    new = placeholder("text")
                if new is not old:
                    changes[name] = new
            try:
                return replace(value, **changes) if changes else value
            except CodecError:  # the address of a part was a secret from end to end
                return Text(f"[{placeholder('secret')}]")
        return value

    def _clean_object(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        cleaned: dict[str, Any] = {}
        changed = False
        for key, old in value.items():
            name = self._clean(key)
            while name in cleaned:  # two keys that were secrets have become one
                name += "'"
            cleaned[name] = new = self._clean(_hidden(old) if is_secret_name(str(name)) else old)
            changed = changed or new is not old or name != key
        return cleaned if changed else value

    def _clean_items(self, value: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
        cleaned = [self._clean(item) for item in value]
        if len(cleaned) == 2 and isinstance(cleaned[0], str) and is_secret_name(cleaned[0]):  # a header
            cleaned[1] = self._clean(_hidden(value[1]))
        if all(new is old for new, old in zip(cleaned, value, strict=True)):
            return value
        return tuple(cleaned) if isinstance(value, tuple) else cleaned


class _Looks(dict[Any, Callable[[Any, Any], bool]]):
    """The quick look at an event, by its class or by that of its form."""

    def __missing__(self, cls: Any) -> Callable[[Any, Any], bool]:
        self[cls] = look = Redactor.LOOKS.get(getattr(cls, "__wrapped__", cls), _suspects_all)
        return look


def _suspects_all(_: Redactor, event: object) -> bool:  # noqa: ARG001  # the signature of a look
    return False


_looks = _Looks()


def _hidden(value: Any) -> Any:
    """The value of a secret name, hidden: text and numbers go, structure and true, false, null stay."""
    if isinstance(value, str):
        return value if not value or is_placeholder(value) else placeholder("secret")
    if is_array(value):
        return [_hidden(item) for item in value]
    return placeholder("secret") if isinstance(value, int | float) and not isinstance(value, bool) else value


@cache
def _text_fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.name not in _NOT_TEXT)


def redact(value: T) -> T:
    """A text, JSON data or an event without secrets, by the rules of `Redactor()`."""
    redactor = Redactor()
    if isinstance(value, RunEvent):
        return cast("T", redactor.event(cast("Any", value)))
    return cast("T", redactor.value(cast("Any", value)))
