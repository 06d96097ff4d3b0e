"""Embeddings from any endpoint that speaks OpenAI's: OpenAI, vLLM, Ollama, llama.cpp servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from wesichain.errors import MissingDependencyError, PlaybookError

try:
    import openai
except ImportError as error:
    raise MissingDependencyError("the endpoint embedder", package="openai", extra="openai") from error

from .protocol import unit_rows

_BATCH = 128


class OpenAiEmbedder:
    """`base_url` and `api_key` as the official SDK takes them; no key is needed with a base URL."""

    def __init__(
        self,
        model: str,
        dimension: int,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.name = f"openai:{model}"
        self.dimension = dimension
        self._model = model
        key = api_key or ("none" if base_url else None)
        self._client = openai.OpenAI(
            base_url=base_url,
            api_key=key,
            timeout=timeout,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),  # a key stays with its host
        )

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            try:
                reply = self._client.embeddings.create(
                    model=self._model, input=batch, encoding_format="float"
                )
            except openai.OpenAIError as error:
                raise PlaybookError(f"the embedder {self.name!r} could not answer: {error}") from error
            rows += [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        return unit_rows(rows, dimension=self.dimension, name=self.name)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
