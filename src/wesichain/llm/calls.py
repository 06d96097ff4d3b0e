"""Tool calls in requests and replies: legal names, arguments, ids; the fields of a request's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from wesichain.core import JsonValue, LlmRequest, Message, Role
from wesichain.core.internal import dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError, ConfigError, LlmRejectedError

REFUSAL = "refusal"  # key in `LlmResponse.opaque`: the text with which the model refused

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


class ToolNames:
    """Maps the tool names of one request to `[A-Za-z0-9_-]{1,64}` and back.

    A legal name is kept; an illegal one (`files.read`) gets a legal name that no other tool has. Names in the
    history are mapped too: providers reject a message with an illegal one.
    """

    __slots__ = ("_back", "_out")

    def __init__(self, names: Iterable[str]) -> None:
        distinct = dict.fromkeys(names)
        legal = [name for name in distinct if 0 < len(name) <= _LONGEST and not _ILLEGAL.search(name)]
        self._out = {name: name for name in legal}
        self._back = dict(self._out)
        for name in distinct:
            if name not in self._out:
                wire = self._free(_ILLEGAL.sub("_", name)[:_LONGEST] or "_")
                self._out[name] = wire
                self._back[wire] = name

    @classmethod
    def of(cls, request: LlmRequest) -> ToolNames:
        offered = [tool.name for tool in request.tools]
        called = [call.name for message in request.messages for call in message.tool_calls]
        return cls([*offered, *called])

    def to_wire(self, name: str) -> str:
        return self._out[name]

    def from_wire(self, wire: str) -> str:
        """The tool's own name. A name that was not sent is returned unchanged; the runtime judges it."""
        return self._back.get(wire, wire)

    def _free(self, wanted: str) -> str:
        wire, number = wanted, 1
        while wire in self._back:
            number += 1
            suffix = f"_{number}"
            wire = wanted[: _LONGEST - len(suffix)] + suffix
        return wire


class ToolChoice(NamedTuple):
    """A tool choice: "auto", "required", "none", or "tool" with the name that is sent for it."""

    kind: Literal["auto", "required", "none", "tool"]
    name: str = ""


def tool_choice(request: LlmRequest, names: ToolNames) -> ToolChoice | None:
    """The tool choice in the settings of a request; None if there is nothing to send."""
    choice = request.settings.tool_choice
    if choice is None or (choice in ("auto", "none") and not request.tools):
        return None
    offered = [tool.name for tool in request.tools]
    if choice in ("auto", "required", "none") and offered:
        return ToolChoice(cast("Any", choice))
    if choice not in offered:
        raise ConfigError(
            f"tool_choice={choice!r}: the tools of this request are {', '.join(offered) or 'none'}; "
            f"choose one of them"
        )
    return ToolChoice("tool", names.to_wire(choice))


def stops_of(request: LlmRequest) -> list[str]:
    """The stop sequences of the request and of its settings."""
    return [*dict.fromkeys((*request.stop, *request.settings.stop))]


def read_args(text: str) -> JsonValue:
    """The arguments of a call. Empty text is `{}`; text that is not JSON is returned as a string."""
    if not text.strip():
        return {}
    try:
        value: JsonValue = parse_json(text)
    except CodecError:
        return text
    return value


def spaced_json(value: JsonValue) -> str:
    """JSON with the spaces that models write, so that a call in the history reads as it was written."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{dump_json(key)}: {spaced_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(spaced_json, value)) + "]"
    return dump_json(value)


def write_args(args: JsonValue) -> JsonValue:
    """Arguments for a message in the history. Several servers reject, or crash on, any but an object."""
    return args if is_object(args) else {"malformed_arguments": args}


def require_ids(messages: Iterable[Message]) -> None:
    """Raise `LlmRejectedError` for a call or result without an id, by which providers match the two."""
    for number, message in enumerate(messages):
        if any(not call.id for call in message.tool_calls) or (
            message.role is Role.TOOL and not message.tool_call_id
        ):
            raise LlmRejectedError(
                f"message {number} ({message.role}) has a tool call without an id; give every call an id, "
                f"and its result the same one"
            )


def sealed(opaque: Mapping[str, JsonValue]) -> JsonValue:
    """The opaque data of a reply, without the empty entries; None if all are empty."""
    return {key: value for key, value in opaque.items() if value} or None


def checked_options(options: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """The `options=` of a client. Tools in it are the provider's own, and are added to the agent's."""
    given = dict(options or {})
    if "tools" in given and not is_array(given["tools"]):
        raise ConfigError(
            f"options={{'tools': {given['tools']!r}}}: give a list of the provider's own tools; "
            f"they are added to the agent's, which are never replaced"
        )
    return given


def with_options(body: Mapping[str, Any], options: Mapping[str, JsonValue]) -> dict[str, Any]:
    """The body with the user's own fields: objects are merged, tools added, and None removes a field."""
    merged = dict(body)
    for key, value in options.items():
        ours = merged.get(key)
        if key == "tools" and is_array(value):
            merged[key] = [*(ours or ()), *value]
        else:
            merged[key] = {**ours, **value} if is_object(ours) and is_object(value) else value
    return {key: value for key, value in merged.items() if value is not None}


def with_settings(
    body: Mapping[str, Any], options: Mapping[str, JsonValue], request: LlmRequest, written: Mapping[str, Any]
) -> dict[str, Any]:
    """The body with the client's options, the settings of the request and their `extra`; later ones win.

    `written` are the settings as the provider's fields; None for those that are not set.
    """
    given = {key: value for key, value in written.items() if value is not None}
    return with_options(with_options(with_options(body, options), given), request.settings.extra)


def token_count(value: object) -> int:
    """A token count in a reply; 0 if it is missing or not a positive integer."""
    return value if type(value) is int and value > 0 else 0


def as_string(value: object) -> str:
    """A text field of a reply; "" if it is not a string."""
    return value if isinstance(value, str) else ""


def as_object(value: object) -> dict[str, Any]:
    """An object in a reply; `{}` if it is not an object."""
    return value if is_object(value) else {}


def as_objects(value: object) -> list[dict[str, Any]]:
    """The objects in an array of a reply."""
    return [item for item in value if is_object(item)] if is_array(value) else []
