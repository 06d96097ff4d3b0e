"""Supported settings: a table of the `ModelSettings` that each provider takes.

What a single model does not take is not guessed from its name: the provider rejects the request, and its
error names the setting (`rejected_setting`). Only the form in which an effort is written depends on the
family of the model. Rows are read from top to bottom, and the last one that names a setting decides.
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
Demand: TypeAlias = str
ReasoningForm: TypeAlias = Literal["effort", "budget", "adaptive", "between_tools", "level", "nova"]


class _Row(NamedTuple):
    """What some providers take, what they refuse, and why; for a family of models, the form of an effort.

    `family` is a regular expression that is searched for in the model's name. Providers and demands are
    separated by spaces.
    """

    providers: str
    family: str = ""
    takes: str = ""
    refuses: str = ""
    why: str = ""
    reasoning: ReasoningForm | None = None


_SAMPLING = "temperature top_p"
_EFFORTS = "reasoning:low reasoning:medium reasoning:high"
_CHAT = f"{_SAMPLING} max_tokens seed stop tool_choice parallel_tool_calls extra"
_TIERS_OF_OPENAI = " ".join(
    f"service_tier:{tier}" for tier in ("auto", "default", "flex", "scale", "priority", "fast")
)
# Other providers with OpenAI's chat API, whose own errors say what a model does not take.
_COMPATIBLE = (
    "deepseek xai together fireworks cerebras cohere moonshot nebius perplexity huggingface github vercel "
    "litellm"
)
TABLE = (
    # --- providers ---
    _Row(
        "openai responses",
        takes=f"{_CHAT} {_EFFORTS} reasoning:off {_TIERS_OF_OPENAI}",
        reasoning="effort",
    ),
    _Row("responses", refuses="seed stop"),
    _Row(f"chat {_COMPATIBLE}", takes=f"{_CHAT} {_EFFORTS} reasoning:off", reasoning="effort"),
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
        takes=f"{_SAMPLING} max_tokens stop reasoning tool_choice parallel_tool_calls cache extra "
        f"service_tier:auto service_tier:standard_only",
        reasoning="budget",
    ),
    _Row(
        "anthropic/2026-10-21",
        refuses=_SAMPLING,
        why="the API takes no sampling settings since its version 2026-10-21",
    ),
    _Row(
        "google",
        takes=f"{_SAMPLING} max_tokens seed stop reasoning tool_choice extra "
        f"service_tier:flex service_tier:standard service_tier:priority",
        reasoning="budget",
    ),
    _Row(
        "bedrock",
        takes=f"{_SAMPLING} max_tokens stop tool_choice:auto tool_choice:required tool_choice:name "
        f"extra service_tier:priority service_tier:default service_tier:flex service_tier:reserved",
    ),
    _Row(
        "local",
        takes=f"{_SAMPLING} max_tokens seed stop tool_choice cache:off extra parallel_tool_calls:false",
    ),
    _Row("text", takes=f"{_SAMPLING} max_tokens seed stop cache:off extra"),
    # --- families, whose effort is written in different forms, or not known here ---
    _Row("openai responses", takes="cache:off"),
    _Row("groq", r"gpt-oss", takes=_EFFORTS),
    _Row("groq", r"qwen", takes="reasoning:off"),
    _Row("bedrock", r"claude", takes="reasoning cache", reasoning="budget"),
    _Row("bedrock", r"nova", takes="cache"),
    _Row("bedrock", r"nova-(2|premier-2)", takes=f"{_EFFORTS} reasoning:off", reasoning="nova"),
    _Row("bedrock", r"gpt-oss", takes=_EFFORTS, reasoning="effort"),
    _Row(
        "anthropic bedrock",
        r"claude-((opus|sonnet)-4[-.]6|opus-4[-.][7-9]|(opus|sonnet|haiku)-[5-9]|fable|mythos)",
        reasoning="adaptive",
    ),
    _Row("anthropic bedrock", r"claude-sonnet-(5[-.]5|[6-9])", reasoning="between_tools"),
    _Row("google", r"gemini-([3-9]|\d\d)", reasoning="level"),
)


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
        row for row in TABLE if named.intersection(row.providers.split()) and re.search(row.family, model)
    )
    return SupportedSettings(provider, model, rows)


def _demands(settings: ModelSettings) -> Iterator[tuple[str, Demand]]:
    """Each given setting, with its demand on the model."""
    for name in settings.set_fields():
        value = getattr(settings, name)
        match name:
            case "reasoning":
                yield name, f"reasoning:{'tokens' if isinstance(value, int) else value}"
            case "tool_choice":
                yield name, f"tool_choice:{value if value in _CHOICES else 'name'}"
            case "parallel_tool_calls":
                yield name, f"parallel_tool_calls:{'true' if value else 'false'}"
            case "service_tier" | "cache":
                yield name, f"{name}:{value}"
            case _:
                yield name, name


_CHOICES = ("auto", "required", "none")

# The fields of all APIs in which a setting is sent, as an error names them.
_FIELDS = {
    "top_p": ("topP",),
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "maxTokens", "maxOutputTokens"),
    "seed": ("random_seed",),
    "stop": ("stop_sequences", "stopSequences"),
    "reasoning": (
        "reasoning_effort", "effort", "thinking", "thinking_budget", "thinkingBudget", "thinking_level",
        "thinkingLevel", "thinking_config", "thinkingConfig", "budget_tokens", "output_config",
        "reasoningConfig",
    ),
    "tool_choice": ("toolChoice", "function_calling_config", "functionCallingConfig"),
    "parallel_tool_calls": ("disable_parallel_tool_use",),
    "service_tier": ("serviceTier",),
    "cache": ("cache_control", "cachePoint", "prompt_cache_options"),
}  # fmt: skip


def rejected_setting(settings: ModelSettings, words: str) -> str | None:
    """The setting that an error of the provider names, as a keyword argument; None if it names none."""
    found = {word for name in re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", words) for word in name.split(".")}
    for name in settings.set_fields():
        if name == "extra":
            given = [key for key in settings.extra if key in found]
            if given:
                return f"extra={{{given[0]!r}: ...}}"
        elif found.intersection((name, *_FIELDS.get(name, ()))):
            return f"{name}={getattr(settings, name)!r}"
    return None
