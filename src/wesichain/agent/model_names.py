"""Model names, such as `openai:NAME` and `anthropic:NAME`, and the clients that they stand for."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeAlias, TypeVar, cast

from wesichain.core import CompletionLlm, ToolCallingLlm
from wesichain.errors import ConfigError

T = TypeVar("T")
AnyModel: TypeAlias = ToolCallingLlm | CompletionLlm | str

_KEPT = 16
# Services with OpenAI's chat API, and one with its Responses API.
_ACCOUNTS = (
    "mistral", "groq", "openrouter", "deepseek", "xai", "together", "fireworks", "cerebras", "cohere",
    "moonshot", "nebius", "perplexity", "huggingface", "github", "vercel", "litellm",
)  # fmt: skip
# By provider: the module of its client in `wesichain.llm`, and the client's class.
_CLIENTS = {
    "openai": ("openai", "OpenAiClient"),
    "responses": ("openai", "ResponsesClient"),
    "azure": ("openai", "OpenAiClient"),
    "anthropic": ("anthropic", "AnthropicClient"),
    "google": ("google", "GoogleClient"),
    "bedrock": ("bedrock", "BedrockClient"),
    **dict.fromkeys(_ACCOUNTS, ("openai", "OpenAiClient")),
    "perplexity": ("openai", "ResponsesClient"),
    "ollama": ("openai", "OpenAiClient"),
    "local": ("local", "LocalLlm"),
}
FORMS = tuple(f"{provider}:NAME" for provider in _CLIENTS)


def resolve_model(model: AnyModel) -> ToolCallingLlm:
    """The model itself, or the client for its name. Needs no network and no key before the first call."""
    if isinstance(model, str):
        return _by_name(model)
    if isinstance(model, ToolCallingLlm):
        return model
    given = cast("Any", model)
    if isinstance(given, CompletionLlm):
        from wesichain.llm.react_text import TextReAct  # takes 11 ms to import

        return TextReAct(given)
    raise ConfigError(
        f"{type(given).__name__} is not a model; pass an object with complete(request), "
        f"or one of {', '.join(FORMS)}"
    )


def name_of_model(llm: object) -> str:
    """The name of a model in recordings and price tables."""
    return str(getattr(llm, "model", "") or type(llm).__name__)


class Models(Generic[T]):
    """A cache of the runtimes made for models of single runs; each name makes one client."""

    def __init__(self) -> None:
        self._made: OrderedDict[str | int, tuple[AnyModel, str, T | None]] = OrderedDict()

    def get(self, model: AnyModel, make: Callable[[ToolCallingLlm], T]) -> T:
        key = model if isinstance(model, str) else id(model)
        found = self._made.get(key)
        if found is not None and found[2] is not None:
            return found[2]
        llm = resolve_model(model)
        made = make(llm)
        self._made[key] = (model, model if isinstance(model, str) else name_of_model(llm), made)
        while len(self._made) > _KEPT:
            self._made.popitem(last=False)
        return made

    def invalidate(self) -> None:
        """Drop the cached runtimes; the models are still known."""
        for key, (model, name, _) in self._made.items():
            self._made[key] = (model, name, None)

    def known(self, name: str) -> AnyModel | None:
        """The model of a run by its name in the outcome; None for ""."""
        if not name:
            return None
        for model, reported, _ in reversed([*self._made.values()]):
            if reported == name:
                return model
        if name.partition(":")[0] in _CLIENTS:
            return name
        raise ConfigError(f"the run was given the model {name!r}, which is not known here; pass model= again")


def _by_name(text: str) -> ToolCallingLlm:
    provider, colon, name = text.partition(":")
    if not colon and text:
        first, _, rest = text.partition("/")
        meant = f"{first}:{rest or 'NAME'}" if first in _CLIENTS else f"openai:{text}"
        raise ConfigError(
            f"model {text!r} names no provider; did you mean {meant!r}? The forms are {', '.join(FORMS)}"
        )
    if not name.strip():
        raise ConfigError(f"model {text!r} has no name; the forms are {', '.join(FORMS)}")
    if provider not in _CLIENTS:
        raise ConfigError(f"model {text!r}: unknown provider {provider!r}; the forms are {', '.join(FORMS)}")
    module, client = _CLIENTS[provider]
    # Imported on first use: the SDK is an optional dependency.
    llm = import_module(f"wesichain.llm.{module}")
    options: dict[str, Any] = {}
    if provider == "azure":
        options["api_version"] = os.environ.get("OPENAI_API_VERSION") or "2024-10-21"
    elif provider == "ollama":
        host = (os.environ.get("OLLAMA_HOST") or "127.0.0.1:11434").rstrip("/")
        options["base_url"] = f"{host if '://' in host else f'http://{host}'}/v1"
    elif provider in _ACCOUNTS:
        options["account"] = llm.ACCOUNTS[provider]
    made: ToolCallingLlm = getattr(llm, client)(name, **options)
    return made
