"""ToolSearch: hundreds of tools behind one that finds them, so that a request holds those it needs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from wesichain.core import JsonValue, is_array, is_object
from wesichain.errors import ToolDefinitionError
from wesichain.tools.definition import Tool
from wesichain.tools.json_schema import shorten
from wesichain.tools.json_tool import JsonTool
from wesichain.tools.registry import ToolLike, ToolSet
from wesichain.tools.running import in_thread
from wesichain.tools.tool_sources import ToolSource

_log = logging.getLogger("wesichain")
_SHOWN = 300  # characters of a description
_NAMED = 12  # tools that are named where nothing was found
_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
    "required": ["query"],
    "additionalProperties": False,
}


class TextEmbedder(Protocol):
    """Texts as rows of numbers, near to each other where the texts mean the same."""

    def embed(self, texts: Sequence[str]) -> Any:
        """One row for each text."""
        ...


class ToolSearch(ToolSource):
    """Offers one tool, which finds the others: `Agent(model, tools=[ToolSearch(hundreds, k=8)])`.

    A search finds at most `k`, by meaning where an `embedder` is given (those of `wesichain.learning` are
    such), and by words otherwise, or where the embedder fails. What it has found is offered from the next
    step on, to the end of the run; a tool that was not found is not run. `name` is that of the one tool.
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
        from .ranking import WordIndex  # loaded with the first search, not with the project

        given: Any = k
        if not isinstance(given, int) or isinstance(given, bool) or k < 1:
            raise ToolDefinitionError(
                f"ToolSearch(k={given!r}): k is how many tools a search finds, 1 or more"
            )
        self.registry = ToolSet.of(tools).build()
        if self.registry.sources:
            raise ToolDefinitionError("ToolSearch(tools): they are tools and functions, no further sources")
        self.names = self.registry.names
        self._k = k
        self._embedder = embedder
        self._tools = [*self.registry]
        self._texts = [_text_of(tool) for tool in self._tools]
        self._index = WordIndex(self._texts)
        self._rows: list[list[float]] | None = None
        count = len(self._tools)
        told = description or (
            f"Find tools by what they do: there are {count} more that are not shown. What is found can be "
            f"called from your next turn on."
        )
        self.tool = JsonTool(name, told, _SCHEMA, self._search, effect="pure")
        self.always = (self.tool,)

    def found_in(self, result: JsonValue) -> tuple[str, ...]:
        """The tools that a result of the search names: what is offered follows from the run's own log."""
        found = result.get("found") if is_object(result) else None
        named = [item.get("name") for item in found if is_object(item)] if is_array(found) else []
        return tuple(name for name in named if isinstance(name, str) and name in self.registry)

    async def _search(self, args: Any) -> JsonValue:
        query: str = args["query"]
        places = await self._places(query)
        found: list[JsonValue] = [_shown(self._tools[place]) for place in places]
        if found:
            return {"found": found}
        some = ", ".join(self.names[:_NAMED])
        return {"found": [], "hint": f"nothing fits; use other words. Among the tools are: {some or 'none'}"}

    async def _places(self, query: str) -> list[int]:
        """The tools that fit, the best first; one that is called by its name comes before all."""
        from .ranking import best

        scores = self._index.scores(query)
        if self._embedder is not None and self._tools:
            try:
                scores = await in_thread(lambda: self._meanings(query))
            except Exception:  # noqa: BLE001  # an embedder is anybody's code
                _log.exception("the embedder of ToolSearch failed; the tools are searched by words")
        named = [place for place, name in enumerate(self.names) if name.lower() == query.strip().lower()]
        return [*named, *(place for place in best(scores, self._k) if place not in named)][: self._k]

    def _meanings(self, query: str) -> list[float]:
        from .ranking import similarities, unit

        embedder = self._embedder
        assert embedder is not None
        if self._rows is None:
            self._rows = [unit(row) for row in embedder.embed(self._texts)]
        question = unit(embedder.embed([query.encode(errors="replace").decode()])[0])
        return similarities(question, self._rows)


def _text_of(tool: Tool) -> str:
    """The text that a tool is found by: its name, which says most, its description and its parameters."""
    parameters: Any = tool.spec.parameters.get("properties") or {}
    about = [f"{name} {_described(schema)}" for name, schema in parameters.items()]
    return "\n".join([tool.name, tool.name, tool.description, *about])


def _described(schema: Any) -> str:
    text = schema.get("description") if is_object(schema) else None
    return text if isinstance(text, str) else ""


def _shown(tool: Tool) -> JsonValue:
    return {"name": tool.name, "description": shorten(tool.description, _SHOWN)}
