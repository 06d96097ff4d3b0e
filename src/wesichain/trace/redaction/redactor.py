"""Redaction: secrets are removed from events before they reach a sink.

It is deterministic (equal input gives equal output) and idempotent (a redacted text is not changed), so that
a redacted recording can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from threading import RLock
from typing import Any, ClassVar, TypeVar, cast, overload

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
from wesichain.core.internal import (
    SECRETS,
    RunEvent,
    environment_secrets,
    is_array,
    is_placeholder,
    is_secret_name,
    may_be_secret_name,
    placeholder,
    replace_spans,
)
from wesichain.errors import CodecError

from .names import is_secret_value
from .rules import Search, find_secrets

T = TypeVar("T")
EventT = TypeVar("EventT", bound=Event)

_PASSES = 8
_KNOWN_TEXTS = 1024
_KNOWN_LENGTH = 1024
# Fields that are never redacted. Ids are kept, or two calls could get the same one. `token` is the one-time
# token of an approval: it is bound to its call, and has to reach the person who decides.
_NOT_TEXT = frozenset(
    {"run_id", "step_id", "seq", "at", "scope", "id", "call_id", "tool_call_id", "checkpoint_id", "role",
     "finish_reason", "usage", "duration_ms", "token", "expires_at", "resumed", "data", "media_type"}
)  # fmt: skip


class Redactor:
    """Removes secrets from texts, JSON data and events.

    It finds the values of registered secrets and of environment variables with secret names (as of its
    creation or the last `refresh`) in any usual encoding, and other secrets by the name in front of them
    (`password=...`) or by their format. `extra` is a further function from a text to its redacted form.
    """

    __slots__ = (
        "_call", "_environ", "_extra", "_known", "_names", "_registered", "_searches", "_tools", "_variables"
    )  # fmt: skip

    def __init__(
        self, extra: Callable[[str], str] | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._extra = extra
        self._environ = environ
        self._variables = environment_secrets(environ)
        self._forget()

    def refresh(self) -> None:
        """Read the environment again."""
        variables = environment_secrets(self._environ)
        if variables is not self._variables:
            self._variables = variables
            self._forget()

    def _forget(self) -> None:
        """Forget what was seen without secrets: there are other secrets now."""
        self._registered = SECRETS.version
        known = (
            (self._variables, self._variables.find, "environment"),
            (SECRETS.index, SECRETS.find, "registered"),
        )
        self._searches: list[Search] = [(find, label) for index, find, label in known if index]
        self._known: set[str] = set()  # short texts without secrets
        self._names: set[str] = set()  # field names that do not stand for secrets
        self._call: ToolCall | None = None  # the last call without secrets
        self._tools: tuple[ToolSpec, ...] | None = None  # the last tools without secrets

    def event(self, event: EventT) -> EventT:
        """Redact an event; return the same object if it has no secrets."""
        if self._registered != SECRETS.version:
            self._forget()
        try:
            if _checks[event.__class__](self, event):
                return event
        except RecursionError:
            pass  # values that are nested too deeply are replaced below
        return cast("EventT", self._clean(event))

    def suspects(self, events: Sequence[Any]) -> list[int]:
        """The positions of the events, or compact forms of events, that may contain secrets."""
        if self._registered != SECRETS.version:
            self._forget()
        checks = _checks
        return [place for place, event in enumerate(events) if not checks[event.__class__](self, event)]

    def text(self, text: str) -> str:
        """Redact a text."""
        if self._registered != SECRETS.version:
            self._forget()
        return self._redacted(text)

    def _redacted(self, text: str) -> str:
        if text in self._known:
            return text
        before = text
        for _ in range(_PASSES):
            found = find_secrets(text, self._searches)
            cleaned = replace_spans(text, found) if found else text
            cleaned = cleaned if self._extra is None else self._extra(cleaned)
            if cleaned == text:
                if text is before and len(text) <= _KNOWN_LENGTH:
                    self._remember(text)
                return text
            text = cleaned
        return placeholder("text")  # the rules undo each other: hide everything

    def _remember(self, text: str) -> None:
        if len(self._known) >= _KNOWN_TEXTS:
            self._known.clear()
        self._known.add(text)

    def value(self, value: JsonValue) -> JsonValue:
        """Redact JSON data and its keys; return the same object if it has no secrets."""
        if self._registered != SECRETS.version:
            self._forget()
        try:
            return cast("JsonValue", self._clean(value))
        except RecursionError:
            return placeholder("text")

    # --- fast checks ------------------------------------------------------------------------------

    def _is_clean(self, text: str) -> bool:
        """Whether the text contains no secret."""
        return text in self._known or self._redacted(text) is text

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

    # Fast checks for the events of an ordinary run; other events are always redacted.
    CHECKS: ClassVar[dict[type, Callable[[Any, Any], bool]]] = {
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
        if not isinstance(text, str):  # parts are always redacted
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
            return self._is_clean_object(data)
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

    def _is_clean_object(self, data: dict[Any, Any]) -> bool:
        known, names = self._known, self._names
        if "value" in data and _is_named_secret(data):
            return False
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

    def _is_clean_name(self, name: object) -> bool:
        if type(name) is not str or is_secret_name(name) or may_be_secret_name(name):
            return False
        if not self._is_clean(name):
            return False
        if len(self._names) >= _KNOWN_TEXTS:
            self._names.clear()
        self._names.add(name)
        return True

    # --- redacting --------------------------------------------------------------------------------

    def _clean(self, value: Any) -> Any:
        """Redact a value of an event; return the same object if it has no secrets."""
        if isinstance(value, str):
            return self._redacted(value)
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
            except CodecError:  # the whole URL of a part was a secret
                return Text(f"[{placeholder('secret')}]")
        return placeholder("secret") if hasattr(value, "get_secret_value") else value

    def _clean_object(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        cleaned: dict[str, Any] = {}
        changed = False
        named = "value" if _is_named_secret(value) else None
        for key, old in value.items():
            name = self._clean(key)
            while name in cleaned:  # two secret keys became equal
                name += "'"
            is_secret = key == named or _is_secret_field(str(name), old)
            cleaned[name] = new = self._clean(_hidden(old) if is_secret else old)
            changed = changed or new is not old or name != key
        return cleaned if changed else value

    def _clean_items(self, value: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
        cleaned = [self._clean(item) for item in value]
        if len(cleaned) == 2 and isinstance(cleaned[0], str) and is_secret_name(cleaned[0]):  # a header
            cleaned[1] = self._clean(_hidden(value[1]))
        if all(new is old for new, old in zip(cleaned, value, strict=True)):
            return value
        return tuple(cleaned) if isinstance(value, tuple) else cleaned


class _Checks(dict[Any, Callable[[Any, Any], bool]]):
    """The fast check of an event, by its class or that of its compact form."""

    def __missing__(self, cls: Any) -> Callable[[Any, Any], bool]:
        self[cls] = check = Redactor.CHECKS.get(getattr(cls, "__wrapped__", cls), _is_never_clean)
        return check


def _is_never_clean(_: Redactor, event: object) -> bool:  # noqa: ARG001  # the signature of a check
    return False


_checks = _Checks()


def _is_secret_field(name: str, value: object) -> bool:
    return is_secret_name(name) or (isinstance(value, str) and is_secret_value(name, value))


def _is_named_secret(value: Mapping[str, Any]) -> bool:
    """Whether an object is a pair such as {"name": "API_TOKEN", "value": ...}."""
    name = value.get("name", value.get("key"))
    return "value" in value and isinstance(name, str) and is_secret_name(name)


def _hidden(value: Any) -> Any:
    """Hide the value of a secret name: texts and numbers. Structure, booleans and null are kept."""
    if isinstance(value, str):
        return value if not value or is_placeholder(value) else placeholder("secret")
    if is_array(value):
        return [_hidden(item) for item in value]
    return placeholder("secret") if isinstance(value, int | float) and not isinstance(value, bool) else value


@cache
def _text_fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.name not in _NOT_TEXT)


@overload
def redact(value: BaseException) -> str: ...


@overload
def redact(value: T) -> T: ...


def redact(value: Any) -> Any:
    """Redact a text, JSON data, an event, or the text of an error, by the rules of `Redactor()`.

    For everything that leaves the process: logs, answers to clients, files.
    """
    with _LOCK:  # one redactor for all threads: a new secret is not to meet what it found clean before
        redactor = _shared()
        redactor.refresh()
        if isinstance(value, BaseException):
            return redactor.text(str(value))
        if isinstance(value, RunEvent):
            return redactor.event(cast("Any", value))
        return redactor.value(value)


_LOCK = RLock()


@cache
def _shared() -> Redactor:
    return Redactor()
