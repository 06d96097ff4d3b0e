"""Threads: reading, updating, going back, forking, copying and deleting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from typing_extensions import override

from tests.graph.behaviours import behaviour
from tests.graph.kit import Log, T, note, stopped
from wesichain.core.internal import SystemClock
from wesichain.errors import CheckpointError, ConfigError, NodeFailedError
from wesichain.graph import (
    END,
    Append,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    ThreadEntry,
    compact,
    copy_thread,
    interrupt,
    prune,
)
from wesichain.graph.checkpoints.statecode import StateCode


def abc(store: Any = None, calls: list[str] | None = None, **nodes: Any) -> Graph[Log]:
    builder = GraphBuilder(Log)
    for name in "abc":
        builder.add_node(name, nodes.get(name) or note(name, calls))
    return builder.add_edge("a", "b").add_edge("b", "c").set_entry("a").build(store or MemoryCheckpointer())


@pytest.mark.parametrize(
    "thread_id",
    [
        pytest.param(None, id="nothing"),
        pytest.param(5, id="a-number"),
        pytest.param("", id="empty"),
        pytest.param("a\0b", id="with-NUL"),
        pytest.param("a\ud800", id="with-a-lone-surrogate"),
    ],
)
async def test_a_thread_id_is_a_text_that_every_store_can_keep(thread_id: Any) -> None:
    with pytest.raises(ConfigError, match="is not a thread id"):
        await abc().get_state(thread_id)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda g: g.get_state("t"), id="get_state"),
        pytest.param(lambda g: g.resume("t"), id="resume"),
        pytest.param(lambda g: g.fork("t", "1"), id="fork"),
        pytest.param(lambda g: g.history("t"), id="history"),
        pytest.param(lambda g: g.update_state("t", {}, checkpoint_id="1"), id="update_state"),
        pytest.param(lambda g: g.threads(), id="threads"),
    ],
)
async def test_threads_need_a_checkpointer_and_must_be_there(use: Any) -> None:
    with pytest.raises(ConfigError, match="build it with a checkpointer"):
        await use(GraphBuilder(Log).add_node("a", note("a")).set_entry("a").build())
    if not {"history", "threads"} & {*use.__code__.co_names}:  # an unknown thread has none
        with pytest.raises(CheckpointError, match=r"no thread 't'|no checkpoint '1'"):
            await use(abc())


class CountedReads(MemoryCheckpointer):
    """Notes from where on a thread is read; None is the base of its newest checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.since: list[int | None] = []

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[ThreadEntry]:
        self.since.append(since)
        return await super().read(thread_id, since=since)


async def test_a_graph_reads_a_thread_again_only_if_another_has_written_to_it() -> None:
    store, options = CountedReads(), ExecutionOptions(thread_id="t")
    graph = abc(store)
    await graph.invoke({}, options)
    store.since.clear()
    await graph.invoke({}, options)
    assert len(store.since) == 1
    assert None not in store.since
    await abc(store).invoke({}, options)
    store.since.clear()
    await graph.invoke({}, options)
    assert (len(store.since), store.since[-1]) == (2, None)


async def test_an_unknown_checkpoint_says_so() -> None:
    graph = abc()
    await graph.invoke({}, T)
    for unknown in ("99", "-1", "x", "", "²"):
        with pytest.raises(CheckpointError, match="has no checkpoint"):
            await graph.get_state("t", unknown)


async def test_a_step_whose_nodes_have_all_run_is_no_end() -> None:
    is_broken = True

    def route(_: Log) -> str:
        if is_broken:
            raise ValueError("no")
        return "b"

    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("b", note("b")).set_entry("a")
    graph = builder.add_conditional_edges("a", route, ["b"]).build(MemoryCheckpointer())
    with pytest.raises(NodeFailedError, match="router"):
        await graph.invoke({}, T)
    stopped = await graph.get_state("t")
    assert (stopped.values["log"], stopped.next) == (["a"], ("a",))
    is_broken = False
    assert (await graph.resume("t"))["log"] == ["a", "b"]
    assert (await graph.get_state("t")).next == ()


async def test_a_new_thread_may_begin_with_an_update() -> None:
    graph = abc()
    await graph.update_state("new", {"log": ["me"]})
    assert (await graph.get_state("new")).next == ("a",)
    assert (await graph.resume("new"))["log"] == ["me", "a", "b", "c"]
    await graph.update_state("half", {"log": ["me"]}, as_node="b")
    assert (await graph.resume("half"))["log"] == ["me", "c"]


async def test_an_update_as_a_node_takes_its_router() -> None:
    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("b", note("b")).set_entry("a")
    builder.add_conditional_edges("a", lambda s: "b" if s["n"] > 1 else END, ["b", END])
    graph = builder.build(MemoryCheckpointer())
    await graph.invoke({"n": 0}, T)
    await graph.update_state("t", {"n": 5}, as_node="a")
    assert (await graph.resume("t"))["log"] == ["a", "b"]


@behaviour("G87")
async def test_an_update_drops_what_was_pending() -> None:
    def fail(state: Log) -> Any:
        if state.get("n") != 1:
            raise ValueError("no")
        return {"log": ["b"]}

    calls: list[str] = []
    builder = GraphBuilder(Log).add_node("a", note("a", calls)).add_node("b", fail)
    graph = builder.add_edge("__start__", "a").add_edge("__start__", "b").build(MemoryCheckpointer())
    with pytest.raises(NodeFailedError):
        await graph.invoke({}, T)
    await graph.update_state("t", {"n": 1})
    saved = await graph.get_state("t")
    assert (saved.values["log"], saved.next) == ([], ("a", "b"))
    assert (await graph.resume("t"))["log"] == ["a", "b"]
    assert calls == ["a", "a"]


async def test_a_whole_state_on_a_finished_thread_is_merged() -> None:
    @dataclass
    class State:
        question: str
        answer: str | None = None
        log: Annotated[list[str], Append] = field(default_factory=list)

    builder = GraphBuilder(State).add_node("a", lambda s: {"answer": s.question.upper(), "log": [s.question]})
    graph = builder.set_entry("a").build(MemoryCheckpointer())
    await graph.invoke(State("one"), T)
    assert await graph.invoke(State("two", log=["extra"]), T) == State("two", "TWO", ["one", "extra", "two"])


@behaviour("G94")
async def test_a_thread_of_an_older_graph_still_loads() -> None:
    class Old(TypedDict, total=False):
        log: Annotated[list[str], Append]
        gone: int

    class New(TypedDict, total=False):
        log: Annotated[list[str], Append]
        fresh: Annotated[list[int], Append]

    store = MemoryCheckpointer()
    old = (
        GraphBuilder(Old).add_node("a", note("a")).add_node("b", note("b")).add_edge("a", "b").set_entry("a")
    )
    await stopped(
        old.build(store).invoke({"gone": 1}, ExecutionOptions(thread_id="t", interrupt_before=["b"]))
    )
    new = (
        GraphBuilder(New).add_node("b", note("b2")).add_node("c", note("c")).add_edge("b", "c").set_entry("b")
    )
    graph = new.build(store)
    assert (await graph.get_state("t")).values == {"log": ["a"], "fresh": []}
    assert (await graph.resume("t"))["log"] == ["a", "b2", "c"]


# --- whole threads ---------------------------------------------------------------------------------


class Later(SystemClock):
    """A clock that can be set."""

    def __init__(self) -> None:
        self.now = 1000.0

    @override
    def time(self) -> float:
        return self.now


@behaviour("K13")
async def test_a_copy_of_a_thread_has_all_that_it_has() -> None:
    store = MemoryCheckpointer()
    graph = abc(store, b=lambda _: {"log": [interrupt("?")]})
    await stopped(graph.invoke({}, T))
    before = await store.read("t", since=1)
    await copy_thread(store, "t", "copy")
    assert await store.read("copy", since=1) == before
    assert (await graph.resume("copy", "x"))["log"] == ["a", "x", "c"]
    assert await store.read("t", since=1) == before
    with pytest.raises(CheckpointError):
        await copy_thread(store, "t", "copy")
    with pytest.raises(CheckpointError, match="no thread"):
        await copy_thread(store, "nobody", "x")


async def test_old_threads_are_forgotten() -> None:
    store, clock = MemoryCheckpointer(), Later()
    builder = GraphBuilder(Log).add_node("a", note("a")).set_entry("a")
    graph = builder.build(store, clock=clock)
    for name in ("old", "middle", "new"):
        await graph.invoke({}, ExecutionOptions(thread_id=name))
        clock.now += 100
    assert await prune(store, older_than=150, clock=clock) == ["middle", "old"]
    assert [thread.thread_id for thread in await store.threads()] == ["new"]
    assert [one.next async for one in graph.history("new")] == [(), ("a",)]
    await compact(store, "old")  # it is deleted already
    clock.now -= 86_400
    assert await prune(store, older_than=150, clock=clock) == []


async def test_the_threads_that_wait_are_those_with_a_question() -> None:
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("ask", lambda state: {"said": interrupt("?") if state["asks"] else "nothing"})
    graph = builder.set_entry("ask").build(MemoryCheckpointer())
    await graph.invoke({"asks": False}, ExecutionOptions(thread_id="done"))
    await stopped(graph.invoke({"asks": True}, ExecutionOptions(thread_id="waits")))
    assert {thread.thread_id for thread in await graph.threads()} == {"done", "waits"}
    assert [thread.thread_id for thread in await graph.threads(waiting=True)] == ["waits"]


@behaviour("K08")
async def test_errors_questions_and_answers_are_kept_beside_the_results() -> None:
    store = MemoryCheckpointer()

    def fail(_: Log) -> None:
        raise ValueError("the key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD")

    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("b", lambda _: {"log": [interrupt("?")]})
    builder.add_node("c", fail)
    for name in "abc":
        builder.add_edge("__start__", name)
    graph = builder.build(store)
    with pytest.raises(NodeFailedError):
        await graph.invoke({}, T)
    saved = await graph.get_state("t")
    assert [(task.node, task.status) for task in saved.tasks][::2] == [("a", "done"), ("c", "failed")]
    assert "sk-proj" not in "".join(entry.body for entry in await store.read("t"))


class Plain(TypedDict, total=False):
    value: int


def test_the_tasks_of_the_first_format_have_other_ids() -> None:
    built = GraphBuilder(Plain).add_node("a#1", lambda _: None).set_entry("a#1").build()
    code = StateCode(built.definition)
    body = {"next": ["a#1", ["a#1", "plain", {"value": 1}]], "deferred": ["a#1"]}
    for is_old, ids in ((True, {"a#1": "a##1", "a#1#0": "a##1#0"}), (False, {})):
        frontier, found = code.frontier(body, None, 1, is_old=is_old)
        assert [task.id for task in frontier.tasks] == ["a##1", "a##1#0"]
        assert found == ids
        assert frontier.deferred == {"a#1"}


def test_the_coders_of_declared_keys_are_made_once_and_those_of_a_plain_dict_are_not_kept() -> None:
    for state_type, is_kept in ((Plain, True), (dict, False)):
        built = GraphBuilder[Any](state_type).add_node("a", lambda _: None).set_entry("a").build()
        code = StateCode(built.definition)
        for _ in range(2):
            key = built.definition.schema.key("value")
            assert key is not None
            code._coder(key)
        assert len(code._coders) == is_kept
