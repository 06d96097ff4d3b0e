"""Supported settings: a table of the `ModelSettings` that each provider and each of its models takes.

To add a model, add a row: rows are read from top to bottom, and the last one that names a setting decides. A
model that no row names takes what its provider takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from wesichain.core import ModelSettings
from wesichain.core.internal import NO_SETTINGS, Value, field
from wesichain.errors import ConfigError

# A demand is the name of a setting, or the name and a kind of value: "seed", "reasoning:tokens", "cache:1h".
# Sampling settings have the kind of reasoning in the same request ("temperature:effort", ":off", ":default"):
# some models take a temperature only without reasoning. "forced" is a tool choice that requires a call.
Demand: TypeAlias = str
ReasoningForm: TypeAlias = Literal["effort", "budget", "adaptive", "between_tools", "level", "nova"]


class _Row(NamedTuple):
    """What the models of some providers take, what they refuse, and why.

    `models` is a regular expression that is searched for in the model's name; `reasoning` is the form in
    which the effort is sent. Providers and demands are separated by spaces.
    """

    providers: str
    models: str = ""
    takes: str = ""
    refuses: str = ""
    why: str = ""
    reasoning: ReasoningForm | None = None


_SAMPLING = "temperature top_p"
_EFFORTS = "reasoning:low reasoning:medium reasoning:high"
_CHAT = f"{_SAMPLING} max_tokens seed stop tool_choice forced parallel_tool_calls extra"
_TIERS_OF_OPENAI = " ".join(
    f"service_tier:{tier}" for tier in ("auto", "default", "flex", "scale", "priority", "fast")
)
# Wherever Claude is served: after version 4.6 neither sampling nor a budget of thoughts can be set.
_CLAUDE = "anthropic bedrock openrouter"
_NEW_CLAUDE = r"claude-(opus-4[-.][7-9]|(opus|sonnet|haiku)-[5-9]|fable|mythos)"
_WHILE_IT_THINKS = "while it thinks, its temperature cannot be set, and no call can be forced"
_ALWAYS_THINKS = r"claude-(opus-(5[-.]5|[6-9])|fable|mythos)"

TABLE = (
    # --- providers ---
    _Row(
        "openai responses",
        takes=f"{_CHAT} {_EFFORTS} reasoning:off {_TIERS_OF_OPENAI}",
        reasoning="effort",
    ),
    _Row("responses", refuses="seed stop"),
    _Row("chat", takes=f"{_CHAT} {_EFFORTS} reasoning:off", reasoning="effort"),
    _Row("mistral", takes=f"{_CHAT} reasoning:high reasoning:off", reasoning="effort"),
    _Row(
        "groq",
        takes=f"{_CHAT} service_tier:auto service_tier:on_demand service_tier:flex service_tier:performance",
        reasoning="effort",
    ),
    _Row("openrouter", takes=f"{_CHAT} reasoning", reasoning="effort"),
    _Row(
        "ollama",
        takes=f"{_SAMPLING} max_tokens seed stop {_EFFORTS} reasoning:off tool_choice:auto extra",
        reasoning="effort",
    ),
    _Row(
        "anthropic",
        takes=f"{_SAMPLING} max_tokens stop reasoning tool_choice forced parallel_tool_calls cache extra "
        f"service_tier:auto service_tier:standard_only",
        refuses="temperature:effort forced:effort",
        why=_WHILE_IT_THINKS,
        reasoning="budget",
    ),
    _Row(
        "anthropic/2026-10-21",
        refuses=_SAMPLING,
        why="the API takes no sampling settings since its version 2026-10-21",
    ),
    _Row(
        "google",
        takes=f"{_SAMPLING} max_tokens seed stop reasoning tool_choice forced extra "
        f"service_tier:flex service_tier:standard service_tier:priority",
        reasoning="budget",
    ),
    _Row(
        "bedrock",
        takes=f"{_SAMPLING} max_tokens stop tool_choice:auto tool_choice:required tool_choice:name forced "
        f"extra service_tier:priority service_tier:default service_tier:flex service_tier:reserved",
    ),
    _Row(
        "local",
        takes=f"{_SAMPLING} max_tokens seed stop tool_choice forced cache:off extra "
        f"parallel_tool_calls:false",
    ),
    _Row("text", takes=f"{_SAMPLING} max_tokens seed stop cache:off extra"),
    # --- models of OpenAI ---
    _Row(
        "openai responses",
        r"^(gpt-3|gpt-4|chatgpt|gpt-[5-9][.\d]*-chat)",
        refuses="reasoning",
        why="it does not reason",
    ),
    _Row(
        "openai responses",
        r"^o\d",
        refuses=f"{_SAMPLING} stop reasoning:off parallel_tool_calls",
        why="it always reasons, and takes no sampling settings",
    ),
    _Row(
        "openai responses",
        r"^gpt-5(?![.\d])(?!.*chat)",
        refuses=f"{_SAMPLING} stop reasoning:off",
        why="it always reasons, and takes no sampling settings",
    ),
    _Row(
        "openai responses",
        r"^gpt-5\.[1-4](?!.*chat)",
        refuses="temperature:effort top_p:effort stop:effort",
        why="it takes sampling settings only while it does not reason",
    ),
    _Row(
        "openai responses",
        r"^gpt-(5\.([5-9]|\d\d)|[6-9])(?!.*chat)",
        refuses="temperature:effort top_p:effort temperature:default top_p:default stop:effort stop:default",
        why='it takes sampling settings only with reasoning="off"',
    ),
    _Row("openai responses", r"^gpt-(5\.([6-9]|\d\d)|[6-9])", takes="cache:off"),
    # --- models behind Mistral and Groq ---
    _Row("mistral", r"^(?!.*(magistral|small|medium))", refuses="reasoning", why="it does not reason"),
    _Row("groq", r"gpt-oss", takes=_EFFORTS),
    _Row("groq", r"qwen", takes="reasoning:off"),
    # --- Claude ---
    _Row(
        "bedrock",
        r"claude-(3[-.]7|(opus|sonnet|haiku)-[4-9]|fable|mythos)",
        takes="reasoning",
        reasoning="budget",
    ),
    _Row("bedrock", r"claude|nova", takes="cache"),
    _Row(
        "anthropic bedrock",
        r"claude-(v?2|instant|3-(opus|sonnet|haiku|5))",
        refuses="reasoning",
        why="it does not reason",
    ),
    _Row("anthropic bedrock", r"claude-(opus|sonnet)-4[-.]6", reasoning="adaptive"),
    _Row(
        _CLAUDE,
        _NEW_CLAUDE,
        refuses=f"{_SAMPLING} reasoning:tokens",
        why="it takes an effort of reasoning, and neither a budget of tokens nor sampling settings",
        reasoning="adaptive",
    ),
    _Row("bedrock", r"claude", refuses="temperature:effort forced:effort", why=_WHILE_IT_THINKS),
    _Row("anthropic bedrock", r"claude-sonnet-(5[-.]5|[6-9])", reasoning="between_tools"),
    _Row(
        _CLAUDE,
        rf"{_ALWAYS_THINKS}|claude-sonnet-(5[-.]5|[6-9])",
        refuses="forced",
        why="it cannot be forced to call a tool, since it thinks first",
    ),
    _Row(_CLAUDE, _ALWAYS_THINKS, refuses="reasoning:off", why="it always thinks; use a lower effort"),
    # --- other models behind Bedrock ---
    _Row("bedrock", r"gpt-oss", takes=_EFFORTS, reasoning="effort"),
    _Row("bedrock", r"nova-(2|premier-2)", takes=f"{_EFFORTS} reasoning:off", reasoning="nova"),
    # --- Gemini ---
    _Row("google", r"gemini-(1|2\.0)", refuses="reasoning", why="it does not reason"),
    _Row("google", r"gemini-2\.5-pro", refuses="reasoning:off", why="it always thinks; use a smaller budget"),
    _Row(
        "google",
        r"gemini-([3-9]|\d\d)",
        refuses="reasoning:off reasoning:tokens",
        why="it takes a level of thinking: low, medium or high",
        reasoning="level",
    ),
    _Row("google", r"gemini-3-pro", refuses="reasoning:medium", why="it takes the levels low and high"),
)  # fmt: skip


class SupportedSettings(Value):
    """The settings that one model of one provider takes."""

    __aside__: ClassVar[tuple[str, ...]] = ("rows",)

    provider: str
    model: str
    rows: tuple[_Row, ...] = field()

    @property
    def reasoning(self) -> ReasoningForm:
        """The form in which the effort of reasoning is sent to the model."""
        form: ReasoningForm = "effort"
        for row in self.rows:
            form = row.reasoning or form
        return form

    def check(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for the first setting that the model does not take."""
        if settings == NO_SETTINGS:
            return
        for name, demand in _demands(settings):
            verdict = self._verdict(demand)
            if verdict is not None:
                raise ConfigError(
                    f"{self.provider}:{self.model} does not take {name}={getattr(settings, name)!r}"
                    f"{': ' if verdict else ''}{verdict}; leave it out of the ModelSettings"
                )

    def refuses(self, demand: Demand) -> bool:
        """Whether the model does not take a demand."""
        return self._verdict(demand) is not None

    def _verdict(self, demand: Demand) -> str | None:
        """Why a demand is refused, "" for no special reason; None if it is accepted."""
        verdict: str | None = ""
        for row in self.rows:
            for name in (
                demand,
                demand.partition(":")[0],
            ):  # the kind of value is more specific than the setting
                if name in row.refuses.split():
                    verdict = row.why
                    break
                if name in row.takes.split():
                    verdict = None
                    break
        return verdict


@lru_cache(maxsize=256)
def supported(provider: str, model: str, *, api: str = "") -> SupportedSettings:
    """The settings that a model takes, from the rows that match it; `api` is the provider's API version."""
    named = {provider, f"{provider}/{api}"}
    rows = tuple(
        row for row in TABLE if named.intersection(row.providers.split()) and re.search(row.models, model)
    )
    return SupportedSettings(provider, model, rows)


def _demands(settings: ModelSettings) -> Iterator[tuple[str, Demand]]:
    """Each given setting, with its demand on the model."""
    beside = "effort"
    if settings.reasoning is None or settings.reasoning == "off":
        beside = settings.reasoning or "default"
    for name in settings.set_fields():
        value = getattr(settings, name)
        match name:
            case "temperature" | "top_p" | "stop":
                yield name, f"{name}:{beside}"
            case "reasoning":
                yield name, f"reasoning:{'tokens' if isinstance(value, int) else value}"
            case "tool_choice":
                yield name, f"tool_choice:{value if value in _CHOICES else 'name'}"
                if value not in ("auto", "none"):
                    yield name, f"forced:{beside}"
            case "parallel_tool_calls":
                yield name, f"parallel_tool_calls:{'true' if value else 'false'}"
            case "service_tier" | "cache":
                yield name, f"{name}:{value}"
            case _:
                yield name, name


_CHOICES = ("auto", "required", "none")
