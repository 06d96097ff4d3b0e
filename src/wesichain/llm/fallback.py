"""Fallback: several models in order; if one fails, the next one is called."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import fields
from typing import Any

from wesichain.core import LlmRequest, LlmResponse, ModelSettings, ToolCallingLlm
from wesichain.core.internal import (
    LlmTraits,
    StreamItem,
    check_settings,
    fit_request,
    other_models,
    replace,
    say_omitted,
    traits_of,
)
from wesichain.errors import ConfigError, LlmError, LlmRejectedError, LlmTransportError

from .relay import relay, response_of

_OF_ANY = ("observes_errors", "images", "documents", "audio")


class Fallback:
    """A `StreamingLlm` over models in order of preference.

    After any `LlmError` the next model is called, also after a rejection: another provider may have the
    model or the quota. `when` restricts that (`when=lambda error: error.retryable`); an error for which it
    returns False is raised. After the first piece of a streamed reply, its error is raised. If all models
    fail, an `LlmError` with all their messages is raised; it is retryable if any of theirs is, and its cause
    is an `ExceptionGroup` of them. A missing key is a `ConfigError`, which is raised at once. Each model is
    sent the content parts that it accepts, and a line of text for each of the others.
    """

    def __init__(
        self, models: Sequence[ToolCallingLlm], *, when: Callable[[LlmError], bool] = lambda _: True
    ) -> None:
        if not models:
            raise ConfigError("Fallback has no models; give at least one, the preferred one first")
        given: Any = models
        for model in given if hasattr(given, "__iter__") else [given]:
            if not hasattr(model, "complete") or model is given:
                raise ConfigError(
                    f"Fallback takes a list of models, objects with complete(request), not {model!r}"
                )
        self.models = tuple(models)
        self.model = _name(self.models[0])
        self._when = when
        traits = [traits_of(model) for model in self.models]
        self.traits = _shared(traits)

    @property
    def other_models(self) -> tuple[str, ...]:
        """The names of the models that may answer instead of the first."""
        inside = (name for model in self.models for name in (_name(model), *other_models(model)))
        return tuple(name for name in dict.fromkeys(inside) if name != self.model)

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that one of the models does not take."""
        for model in self.models:
            check_settings(model, settings)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await response_of(self._answers(request, stream=False))

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        return self._answers(request, stream=True)

    async def _answers(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[StreamItem, None]:
        self.check_settings(request.settings)
        errors: list[LlmError] = []
        for model in self.models:
            has_begun = False
            try:
                fitted, omitted = fit_request(request, traits_of(model))
                async with aclosing(relay(model, fitted, stream=stream)) as items:
                    async for item in items:
                        has_begun = True
                        yield self._named(say_omitted(item, omitted), model)
                return
            except LlmError as error:
                if has_begun or not self._when(error):
                    raise
                errors.append(error)
        raise self._all_failed(errors) from ExceptionGroup("no model answered", errors)

    def _named(self, item: StreamItem, model: ToolCallingLlm) -> StreamItem:
        """A response of another model than the first, with the model's name, which decides its price."""
        if isinstance(item, LlmResponse) and not item.model and _name(model) != self.model:
            return replace(item, model=_name(model))
        return item

    def _all_failed(self, errors: Sequence[LlmError]) -> LlmError:
        said = "; ".join(f"{_name(model)}: {error}" for model, error in zip(self.models, errors, strict=True))
        waits = [error.retry_after for error in errors if error.retry_after is not None]
        retryable = any(error.retryable for error in errors)
        kind = LlmTransportError if retryable else LlmRejectedError
        return kind(
            f"none of {len(errors)} models answered: {said}",
            retryable=retryable,
            retry_after=min(waits, default=None),
        )


def _shared(traits: Sequence[LlmTraits]) -> LlmTraits:
    """The traits that all models have, and those of `_OF_ANY` that any of them has."""
    names = [field.name for field in fields(LlmTraits) if field.name != "family"]
    can: dict[str, Any] = {name: all(getattr(one, name) for one in traits) for name in names}
    can |= {name: any(getattr(one, name) for one in traits) for name in _OF_ANY}
    return LlmTraits(**can)


def _name(model: ToolCallingLlm) -> str:
    return str(getattr(model, "model", type(model).__name__))
