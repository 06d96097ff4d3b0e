"""ToolSearch: a tool that finds other tools, so that a request does not contain hundreds of them."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log, sqrt
from operator import mul
from typing import Any, Protocol

from wesichain.core import JsonValue
from wesichain.core.internal import is_array, is_object
from wesichain.errors import ToolDefinitionError

from .definition import Tool
from .json_schema.issues import shorten
from .json_tool import JsonTool
from .registry import ToolLike, ToolSet
from .running import in_thread
from .tool_sources import ToolSource

_log = logging.getLogger("wesichain")
_MAX_DESCRIPTION = 300  # characters
_MAX_HINTS = 12  # tools that are named if a search finds nothing
_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
    "required": ["query"],
    "additionalProperties": False,
}


class TextEmbedder(Protocol):
    """Computes vectors that are close to each other for texts with similar meanings."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Return one vector for each text."""
        ...


class ToolSearch(ToolSource):
    """Offers one tool that searches the others: `Agent(model, tools=[ToolSearch(hundreds, k=8)])`.

    A search finds at most `k` tools: by meaning with an `embedder` (such as those of `wesichain.learning`),
    by words without one or if it fails. Tools that were found are offered from the next step to the end of
    the run; other tools cannot be called. `name` is the name of the search tool.
    """

    def __init__(
        self,
        tools: Iterable[ToolLike],
        k: int = 8,
        *,
        embedder: TextEmbedder | None = None,
        name: str = "search_tools",
        description: str | None = None,
    ) -> None:
        given: Any = k
        if not isinstance(given, int) or isinstance(given, bool) or k < 1:
            raise ToolDefinitionError(
                f"ToolSearch(k={given!r}): k is the number of tools that a search finds, 1 or more"
            )
        self.registry = ToolSet.of(tools).build()
        if self.registry.sources:
            raise ToolDefinitionError(
                "ToolSearch(tools) takes tools and functions, and no DynamicTools or ToolSearch"
            )
        self.names = self.registry.names
        self._k = k
        self._embedder = embedder
        self._tools = [*self.registry]
        self._texts = [_text_of(tool) for tool in self._tools]
        self._index = WordIndex(self._texts)
        self._rows: list[list[float]] | None = None
        count = len(self._tools)
        text = description or (
            f"Find tools by what they do: there are {count} more that are not shown. What is found can be "
            f"called from your next turn on."
        )
        self.tool = JsonTool(name, text, _SCHEMA, self._search, effect="pure")
        self.always = (self.tool,)

    def tools_named_in(self, result: JsonValue) -> tuple[str, ...]:
        """Return the tools in a result of the search, which the log of the run contains."""
        found = result.get("found") if is_object(result) else None
        named = [item.get("name") for item in found if is_object(item)] if is_array(found) else []
        return tuple(name for name in named if isinstance(name, str) and name in self.registry)

    async def _search(self, args: Any) -> JsonValue:
        query: str = args["query"]
        positions = await self._positions(query)
        found: list[JsonValue] = [
            {"name": tool.name, "description": shorten(tool.description, _MAX_DESCRIPTION)}
            for tool in (self._tools[position] for position in positions)
        ]
        if found:
            return {"found": found}
        some = ", ".join(self.names[:_MAX_HINTS])
        return {"found": [], "hint": f"nothing fits; use other words. Among the tools are: {some or 'none'}"}

    async def _positions(self, query: str) -> list[int]:
        """Return the positions of the matching tools, best first; a tool with this exact name comes first."""
        scores = self._index.scores(query)
        if self._embedder is not None and self._tools:
            try:
                scores = await in_thread(lambda: self._similarities(query))
            except Exception:  # noqa: BLE001  # embedders of users may raise anything
                _log.exception("the embedder of ToolSearch failed; the tools are searched by words")
        named = [
            position for position, name in enumerate(self.names) if name.lower() == query.strip().lower()
        ]
        return [*named, *(position for position in best(scores, self._k) if position not in named)][: self._k]

    def _similarities(self, query: str) -> list[float]:
        embedder = self._embedder
        assert embedder is not None
        if self._rows is None:
            self._rows = [unit(row) for row in embedder.embed(self._texts)]
        question = unit(embedder.embed([query.encode(errors="replace").decode()])[0])
        return [sum(map(mul, question, row)) for row in self._rows]  # 1 is the same direction


def _text_of(tool: Tool) -> str:
    """Return the searched text of a tool: its name (twice, for its weight), description and parameters."""
    parameters: Any = tool.spec.parameters.get("properties") or {}
    about = [f"{name} {_description_of(schema)}" for name, schema in parameters.items()]
    return "\n".join([tool.name, tool.name, tool.description, *about])


def _description_of(schema: Any) -> str:
    text = schema.get("description") if is_object(schema) else None
    return text if isinstance(text, str) else ""


_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SATURATION = 1.5  # k1 of BM25
_LENGTH = 0.75  # b of BM25
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do for from get has have how i in is it me my of on or that the "
        "this to tool use what when which with you your",
    )
)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case and in the singular, with snake_case and camelCase split."""
    found = (word.lower() for word in _WORD.findall(_CAMEL_CASE.sub(" ", text)))
    return [_stem(word) for word in found if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class WordIndex:
    """An index of texts by their words, with BM25 scores."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = [Counter(words_of(text)) for text in texts]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._texts_with = Counter(word for counts in self._counts for word in counts)

    def scores(self, question: str) -> list[float]:
        """Return the score of each text; 0 if it has none of the words."""
        words = [(word, self._weight(word)) for word in dict.fromkeys(words_of(question))]
        return [
            sum(weight * self._share(counts[word], length) for word, weight in words if word in counts)
            for counts, length in zip(self._counts, self._lengths, strict=True)
        ]

    def _weight(self, word: str) -> float:
        having = self._texts_with[word]
        return log(1 + (len(self._counts) - having + 0.5) / (having + 0.5))

    def _share(self, times: int, length: int) -> float:
        relative = 1 - _LENGTH + _LENGTH * length / self._mean
        return times * (_SATURATION + 1) / (times + _SATURATION * relative)


def unit(row: Iterable[Any]) -> list[float]:
    """Scale a vector to length one."""
    numbers = [float(number) for number in row]
    length = sqrt(sum(map(mul, numbers, numbers)))
    return [number / length for number in numbers] if length else numbers


def best(scores: Sequence[float], k: int) -> list[int]:
    """Return the positions of the k highest scores above 0, highest first; equal ones in their order."""
    return sorted((index for index, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])[:k]
