"""Model settings, independent of the provider; each adapter translates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

from typing_extensions import override

from wesichain.errors import ConfigError

from .codec import JsonValue
from .values import Value, field, force_setattr, replace

Reasoning: TypeAlias = Literal["low", "medium", "high", "off"]
Caching: TypeAlias = Literal["auto", "off", "5m", "1h"]

_EFFORTS = ("low", "medium", "high", "off")
_CACHES = ("auto", "off", "5m", "1h")


class ModelSettings(Value, omit_defaults=True):
    """Settings of a model call; a field that is left at its default is not sent.

    `reasoning` is an effort, `"off"`, or a number of tokens. `tool_choice` is `"auto"`, `"required"`,
    `"none"`, or the name of the one tool to call. `cache` is how long the provider keeps the prefix of the
    conversation: `"auto"` is the adapter's default. `extra` are further fields of the request's body, sent
    unchanged. A setting that a provider or a model does not support is a `ConfigError` before a request is
    sent.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning: Reasoning | int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    service_tier: str | None = None
    cache: Caching = "auto"
    extra: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def __post_init__(self) -> None:
        stop: Any = self.stop  # a list may be given
        if isinstance(stop, list):
            force_setattr(self, "stop", tuple(stop))  # pyright: ignore[reportUnknownArgumentType]  # Any
        for name, is_right, demand in _RULES:
            value = getattr(self, name)
            if value is not None and not is_right(value):
                raise ConfigError(f"ModelSettings({name}={value!r}): use {demand}")

    def merge(self, other: ModelSettings) -> ModelSettings:
        """These settings, overridden by the fields that `other` sets.

        A field at its default is not set, so `cache="auto"` and `stop=()` override nothing. `extra` is
        merged key by key.
        """
        given = {name: getattr(other, name) for name in other.set_fields()}
        if "extra" in given:
            given["extra"] = {**self.extra, **other.extra}
        return replace(self, **given) if given else self

    @override
    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in _NAMES if name != "extra"))  # which is a mapping

    @override
    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.set_fields())
        return f"ModelSettings({shown})"

    def set_fields(self) -> tuple[str, ...]:
        """The names of the fields that are set."""
        return tuple(name for name in _NAMES if getattr(self, name) != getattr(NO_SETTINGS, name))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("temperature", lambda value: _is_number(value) and value >= 0, "a number from 0 up"),
    ("max_tokens", _is_count, "a whole number from 1 up"),
    ("top_p", lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    ("seed", lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    (
        "stop",
        lambda value: isinstance(value, tuple) and all(isinstance(text, str) and text for text in value),  # pyright: ignore[reportUnknownVariableType]  # checked here
        "a tuple of texts, none of them empty",
    ),
    (
        "reasoning",
        lambda value: _is_count(value) or (isinstance(value, str) and value in _EFFORTS),
        '"low", "medium", "high", "off" or a number of tokens',
    ),
    ("tool_choice", _is_text, '"auto", "required", "none" or the name of a tool'),
    ("parallel_tool_calls", lambda value: isinstance(value, bool), "True or False"),
    ("service_tier", _is_text, "the name of a tier of the provider"),
    ("cache", lambda value: isinstance(value, str) and value in _CACHES, '"auto", "off", "5m" or "1h"'),
    (
        "extra",
        lambda value: isinstance(value, Mapping) and all(isinstance(key, str) for key in value),  # pyright: ignore[reportUnknownVariableType]  # checked here
        "a mapping of fields of the request's body",
    ),
)
_NAMES: Final = ModelSettings.__struct_fields__
NO_SETTINGS: Final = ModelSettings()
