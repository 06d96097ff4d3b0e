"""The client for OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Any

import httpx2
from typing_extensions import Unpack, override

from wesichain.core import LlmRequest, LlmResponse, LlmTraits
from wesichain.llm.calls import ToolNames
from wesichain.llm.transport import Endpoint, ProviderRoute, Reply, asked_key

from .client import OpenAiClient, OpenAiSettings, line_to
from .items import to_items
from .response_reply import ResponseReply

_REASONS = re.compile(r"(o\d|gpt-[5-9]|codex|gpt-oss)(?!.*chat)")


class ResponsesClient(OpenAiClient):
    """A `StreamingLlm` over the Responses API of OpenAI and Azure.

    The provider stores nothing: reasoning comes encrypted in `LlmResponse.opaque` and goes back with the
    message that carries it. The provider's own tools stand in `options` beside the agent's
    (`{"tools": [{"type": "web_search"}]}`). `reasons` says whether the model reasons, where its name does
    not. The rest is as with `OpenAiClient`.
    """

    traits = LlmTraits(
        native_output=True,
        output_with_tools=True,
        parallel_calls=True,
        images=True,
        documents=True,
        reasoning=True,
        caching=True,
    )

    _is_deployed = False  # on Azure, the path of responses names no deployment

    def __init__(
        self,
        model: str,
        *,
        reasons: bool | None = None,
        **settings: Unpack[OpenAiSettings],
    ) -> None:
        self._reasons = _REASONS.match(model) is not None if reasons is None else reasons
        super().__init__(model, **settings)
        if settings.get("traits") is None:
            self.traits = type(self).traits

    @override
    def _wire(
        self, request: LlmRequest, names: ToolNames, *, stream: bool, omitted: list[str]
    ) -> dict[str, Any]:
        return to_items(
            request,
            names,
            model=self.model,
            options=self._options,
            stream=stream,
            reasons=self._reasons,
            omitted=omitted,
        )

    @override
    def _read(self, body: object, *, names: ToolNames, endpoint: Endpoint, omitted: list[str]) -> LlmResponse:
        return ResponseReply.read(body, names=names, endpoint=endpoint, omitted=omitted)

    @override
    def _reply(self, names: ToolNames, endpoint: Endpoint, omitted: list[str]) -> Reply:
        return ResponseReply(names, endpoint, omitted)

    @override
    def _connect(self, http: httpx2.AsyncClient | None) -> ProviderRoute:
        sdk, key = self._sdk(http)
        return line_to(sdk, "/responses", self._endpoint(sdk, key), asked=asked_key(self._api_key))
