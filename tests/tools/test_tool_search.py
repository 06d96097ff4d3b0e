"""ToolSearch and DynamicTools as they are defined: what is found by words and by meaning, and what collides."""

from __future__ import annotations

import asyncio
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core import ToolCall
from wesichain.errors import AgentError, ConfigError, DuplicateToolError, ToolDefinitionError
from wesichain.tools import DynamicTools, JsonTool, RunContext, ToolRegistry, ToolSearch, ToolSet, tool
from wesichain.tools.tool_search import WordIndex, best, words_of


def named(name: str, description: str = "", **parameters: str) -> JsonTool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return JsonTool(name, description, {"type": "object", "properties": properties}, lambda _: name)


CATALOG = [
    named("get_weather", "The weather of a place, today or tomorrow.", city="Where."),
    named("bookFlight", "Book a seat on a plane."),
    named("cancel_booking", "Cancel a booking and give the money back.", reference="Six letters."),
    named("list_invoices", "The open invoices of a customer.", customer="Its number."),
    named("send_email", "Write to somebody.", subject="What it is about.", recipient="An address."),
]


def found(search: ToolSearch, query: str) -> list[str]:
    result = asyncio.run(
        ToolRegistry(search.always).dispatch(ToolCall("c", search.tool.name, {"query": query}))
    )
    assert result.ok
    return [*search.tools_named_in(result.value)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        pytest.param("what is the weather like", "get_weather", id="a-word-of-its-name"),
        pytest.param("FLIGHTS", "bookFlight", id="a-plural-in-camel-case"),
        pytest.param("money back", "cancel_booking", id="words-of-its-description"),
        pytest.param("customer", "list_invoices", id="a-parameter"),
        pytest.param("address", "send_email", id="what-a-parameter-is"),
        pytest.param("cancel_booking", "cancel_booking", id="its-name"),
    ],
)
def test_a_tool_is_found_by_its_words(query: str, first: str) -> None:
    assert found(ToolSearch(CATALOG), query)[0] == first


def test_at_most_k_are_found_and_nothing_for_words_that_nobody_has() -> None:
    many = [named(f"report_{n}", "A report of sales.") for n in range(20)]
    assert found(ToolSearch(many, k=3), "report of sales") == ["report_0", "report_1", "report_2"]
    search = ToolSearch(CATALOG)
    registry = ToolRegistry(search.always)
    nothing = asyncio.run(registry.dispatch(ToolCall("c", "search_tools", {"query": "quux of the"})))
    assert nothing.value == {
        "found": [],
        "hint": "nothing fits; use other words. Among the tools are: get_weather, bookFlight, cancel_booking, "
        "list_invoices, send_email",
    }
    assert found(ToolSearch([]), "anything") == []


class Meanings:
    """A dictionary for a mind."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: Any) -> Any:
        self.asked.append([*texts])
        about = (
            "rain weather umbrella",
            "plane flight fly seat",
            "money refund back",
            "bill invoice",
            "letter email",
        )
        return [[float(any(word in text.lower() for word in row.split())) for row in about] for text in texts]


def test_an_embedder_finds_by_meaning() -> None:
    mind = Meanings()
    search = ToolSearch(CATALOG, k=1, embedder=mind)
    assert [found(search, query) for query in ("umbrella", "refund", "letter")] == [
        ["get_weather"],
        ["cancel_booking"],
        ["send_email"],
    ]
    assert [len(texts) for texts in mind.asked] == [5, 1, 1, 1]  # the tools once
    assert found(ToolSearch(CATALOG, k=1), "umbrella") == []


def test_an_embedder_that_fails_leaves_the_words(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def embed(self, texts: Any) -> Any:
            raise ConnectionError(str(len(texts)))

    assert found(ToolSearch(CATALOG, embedder=Broken()), "weather") == ["get_weather"]
    assert "searched by words" in caplog.text


def test_what_a_result_names_is_taken_as_far_as_it_is_there() -> None:
    search = ToolSearch(CATALOG)
    assert search.tools_named_in(
        {"found": [{"name": "send_email"}, {"name": "rm"}, "x", {}, {"name": 5}]}
    ) == ("send_email",)
    others: list[Any] = ["text", None, [], {"found": "send_email"}, {"found": None}, 5]  # of a middleware
    for other in others:
        assert search.tools_named_in(other) == ()


@given(st.lists(st.text(max_size=40), max_size=12), st.text(max_size=40), st.integers(1, 5))
def test_a_ranking_is_an_order_of_what_fits(texts: list[str], question: str, k: int) -> None:
    scores = WordIndex(texts).scores(question)
    places = best(scores, k)
    assert len(places) == len({*places}) <= k
    assert [scores[place] for place in places] == sorted((scores[place] for place in places), reverse=True)
    shared = [bool({*words_of(text)} & {*words_of(question)}) for text in texts]
    assert [score > 0 for score in scores] == shared
    assert len(places) == min(k, sum(shared))


def test_the_rarer_a_word_the_more_it_says() -> None:
    index = WordIndex(
        ["order status", "order refund", "order", "status page of the shop with many words in it"]
    )
    assert best(index.scores("order refund"), 1) == [1]
    assert best(index.scores("status"), 2) == [0, 3]  # of two, the shorter text


def test_a_word_of_texts_that_are_equally_long_counts_as_rare_as_it_is() -> None:
    index = WordIndex(["order status", "order refund", "invoice total"])
    assert index.scores("order refund") == pytest.approx([log(1.6), log(1.6) + log(1 + 2.5 / 1.5), 0.0])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("flies ties", ["fly", "tie"], id="ies"),
        pytest.param("cats orders bus gas boss", ["cat", "order", "bus", "gas", "boss"], id="s"),
        pytest.param("listOpenInvoices list_v2", ["list", "open", "invoice", "list", "v2"], id="parts"),
        pytest.param("What is THE total of it?", ["total"], id="words-that-say-nothing"),
    ],
)
def test_words_are_in_the_singular(text: str, found: list[str]) -> None:
    assert words_of(text) == found


# --- definitions -------------------------------------------------------------------------------------


@tool
async def get_weather(city: str) -> str:
    """Another one of this name."""
    return city


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param([get_weather, ToolSearch(CATALOG)], id="before"),
        pytest.param([ToolSearch(CATALOG), get_weather], id="behind"),
        pytest.param([ToolSearch(CATALOG, name="a"), ToolSearch(CATALOG, name="b")], id="in-two-searches"),
        pytest.param([ToolSearch(CATALOG[:2]), ToolSearch(CATALOG[2:])], id="two-searches-of-one-name"),
        pytest.param([ToolSearch(CATALOG), named("search_tools")], id="the-search-itself"),
    ],
)
def test_names_that_collide_are_told_at_once(tools: Any) -> None:
    with pytest.raises(DuplicateToolError):
        ToolSet.of(tools)


@pytest.mark.parametrize("k", [0, -1, True, 1.5, "3", None])
def test_the_number_of_tools_that_are_found_is_1_or_more(k: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="k is the number of tools that a search finds, 1 or more"):
        ToolSearch(CATALOG, k=k)


def test_a_registry_offers_the_search_and_not_what_it_hides() -> None:
    registry = ToolSet.of(
        [ToolSearch(CATALOG[:2], name="find"), ToolSearch(CATALOG[2:], name="look")]
    ).build()
    assert registry.names == ("find", "look")
    assert [spec.name for spec in registry.specs()] == ["find", "look"]
    unknown = asyncio.run(registry.dispatch(ToolCall("c", "get_weather", {"city": "x"})))
    assert "there is no tool" in str(unknown.error)


def test_sources_do_not_stand_in_sources() -> None:
    inside = DynamicTools(lambda: [ToolSearch(CATALOG)])
    with pytest.raises(ToolDefinitionError, match="it has to return tools and functions"):
        asyncio.run(inside.tools(RunContext()))


def refuse() -> list[Any]:
    raise ConfigError("no key")


def test_dynamic_tools_take_a_function_of_the_context_or_of_nothing() -> None:
    async def later(ctx: RunContext[int]) -> list[Any]:
        return [get_weather] * ctx.deps

    ctx = RunContext[int](deps=1)
    for function in (
        later,
        lambda: [get_weather],
        lambda ctx: [get_weather] * ctx.deps,
        lambda *_: iter([get_weather]),
    ):
        assert asyncio.run(DynamicTools(function).tools(ctx)) == (get_weather,)
    assert asyncio.run(DynamicTools(lambda: None).tools(ctx)) == ()
    with pytest.raises(ConfigError, match="no key"):  # an error of ours says enough
        asyncio.run(DynamicTools(refuse).tools(ctx))
    with pytest.raises(ToolDefinitionError, match="pass a function"):
        DynamicTools([get_weather])  # type: ignore[arg-type]
    with pytest.raises(ToolDefinitionError, match="it has to take the RunContext, or nothing"):
        DynamicTools(lambda a, b: [])
    with pytest.raises(AgentError, match="raised ZeroDivisionError"):
        asyncio.run(DynamicTools(lambda: 1 / 0).tools(ctx))
    with pytest.raises(AgentError, match="raised TypeError"):
        asyncio.run(DynamicTools(lambda: 5).tools(ctx))


def test_a_registry_with_tools_of_others_leaves_them_as_they_are() -> None:
    own, other = ToolRegistry([get_weather]), ToolRegistry(CATALOG[1:3])
    both = own.with_tools({"bookFlight": other})
    assert (own.names, both.names) == (("get_weather",), ("get_weather", "bookFlight"))
    assert asyncio.run(both.dispatch(ToolCall("c", "bookFlight", {}))).value == "bookFlight"
    assert (other.stats("bookFlight").successes, both.stats("bookFlight").successes) == (1, 1)
    both.deprecate("bookFlight")
    assert [spec.name for spec in other.specs()] == ["bookFlight", "cancel_booking"]
    with pytest.raises(DuplicateToolError):
        both.with_tools({"bookFlight": other})


def test_a_server_has_no_runs_to_give_tools_to() -> None:
    pytest.importorskip("mcp")
    from wesichain.errors import ConfigError
    from wesichain.tools.mcp import serve_stdio

    with pytest.raises(ConfigError, match="ToolSearch needs the runs of an agent"):
        asyncio.run(serve_stdio([ToolSearch(CATALOG)]))
