"""Threads: looking at them, writing to them, going back in them, forking, copying, forgetting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from typing_extensions import override

from tests.graph.behaviours import behaviour
from tests.graph.kit import Log, T, note, stopped
from wesichain.core.internal import SystemClock
from wesichain.errors import CheckpointError, ConfigError, GraphError, GraphInterruptedError, NodeFailedError
from wesichain.graph import (
    END,
    Append,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
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


@behaviour("G80", "G82", "K03")
async def test_the_history_of_a_thread_is_whole_and_newest_first() -> None:
    graph = abc()
    await graph.invoke({"n": 1}, ExecutionOptions(thread_id="t", run_id="r"))
    history = await graph.history("t")
    assert [(one.step, one.source, one.next, one.values["log"]) for one in history] == [
        (3, "loop", (), ["a", "b", "c"]),
        (2, "loop", ("c",), ["a", "b"]),
        (1, "loop", ("b",), ["a"]),
        (0, "input", ("a",), []),
    ]
    assert [one.checkpoint_id for one in history] == ["4", "3", "2", "1"]
    assert [one.parent_id for one in history] == ["3", "2", "1", None]
    assert {(one.run_id, one.thread_id) for one in history} == {("r", "t")}
    assert history[0].created_at >= history[-1].created_at > 0
    assert await graph.get_state("t") == history[0]
    assert [one async for one in graph.history("t")] == history
    assert await graph.history("t", limit=2) == history[:2]
    assert await graph.history("nobody") == []
    for one in history:
        assert await graph.get_state("t", one.checkpoint_id) == one


async def test_the_values_are_of_the_states_type() -> None:
    @dataclass
    class State:
        n: int = 0
        log: Annotated[list[str], Append] = field(default_factory=list)

    graph = GraphBuilder(State).add_node("a", lambda s: {"n": s.n + 1, "log": ["x"]}).set_entry("a")
    built = graph.build(MemoryCheckpointer())
    done = await built.invoke(State(1), T)
    assert (await built.get_state("t")).values == done == State(2, ["x"])


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
    if not {"history", "threads"} & {*use.__code__.co_names}:  # what is not there has none
        with pytest.raises(CheckpointError, match=r"no thread 't'|no checkpoint '1'"):
            await use(abc())


async def test_an_unknown_checkpoint_says_so() -> None:
    graph = abc()
    await graph.invoke({}, T)
    for unknown in ("99", "-1", "x", "", "²"):
        with pytest.raises(CheckpointError, match="has no checkpoint"):
            await graph.get_state("t", unknown)


@behaviour("G81")
async def test_the_newest_snapshot_shows_what_is_pending_and_a_checkpoint_by_its_id_does_not() -> None:
    def fail(_: Log) -> None:
        raise ValueError("no")

    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("b", fail)
    graph = builder.add_edge("__start__", "a").add_edge("__start__", "b").build(MemoryCheckpointer())
    with pytest.raises(NodeFailedError):
        await graph.invoke({}, T)
    newest = await graph.get_state("t")
    assert (newest.values["log"], newest.next) == (["a"], ("b",))
    by_id = await graph.get_state("t", newest.checkpoint_id)
    assert (by_id.values["log"], by_id.next) == ([], ("a", "b"))


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


@behaviour("G83", "G85")
async def test_going_back_runs_again_only_what_comes_after_and_leaves_what_was() -> None:
    calls: list[str] = []
    graph = abc(calls=calls)
    await graph.invoke({}, T)
    before = await graph.history("t")
    calls.clear()
    assert (await graph.resume("t", checkpoint_id="2"))["log"] == ["a", "b", "c"]
    assert calls == ["b", "c"]
    after = await graph.history("t")
    assert after[-4:] == before
    assert [(one.checkpoint_id, one.parent_id, one.source) for one in after[:3]] == [
        ("7", "6", "loop"),
        ("6", "5", "loop"),
        ("5", "2", "branch"),
    ]


@behaviour("G84")
async def test_going_back_to_the_end_runs_nothing() -> None:
    calls: list[str] = []
    graph = abc(calls=calls)
    done = await graph.invoke({}, T)
    calls.clear()
    assert await graph.resume("t") == done
    assert await graph.resume("t", checkpoint_id="4") == done
    assert calls == []
    assert len(await graph.history("t")) == 4


@behaviour("G86")
async def test_an_update_goes_through_the_reducers_and_on_as_the_node_that_is_named() -> None:
    calls: list[str] = []
    graph = abc(calls=calls)
    await graph.invoke({}, T)
    saved_as = await graph.update_state("t", {"log": ["me"], "n": 5}, as_node="a")
    saved = await graph.get_state("t")
    assert (saved.checkpoint_id, saved.values, saved.next, saved.source) == (
        saved_as,
        {"log": ["a", "b", "c", "me"], "n": 5},
        ("b",),
        "update",
    )
    assert (await graph.resume("t"))["log"] == ["a", "b", "c", "me", "b", "c"]
    with pytest.raises(GraphError, match="as_node: there is no node 'x'; the nodes: 'a'"):
        await graph.update_state("t", {}, as_node="x")
    with pytest.raises(GraphError, match="the update: it wrote the key 'z'"):
        await graph.update_state("t", {"z": 1})


async def test_an_update_without_a_node_leaves_the_way_as_it_is() -> None:
    graph = abc()
    await stopped(graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["b"])))
    await graph.update_state("t", {"log": ["me"]})
    assert (await graph.get_state("t")).next == ("b",)
    assert (await graph.resume("t"))["log"] == ["a", "me", "b", "c"]


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


@behaviour("G88")
async def test_forks_of_one_checkpoint_know_nothing_of_each_other() -> None:
    graph = abc()
    await graph.invoke({}, T)
    one, two = await graph.fork("t", "2"), await graph.fork("t", "2")
    assert len({one, two, "t"}) == 3
    await graph.update_state(one, {"log": ["one"]})
    assert (await graph.resume(one))["log"] == ["a", "one", "b", "c"]
    assert (await graph.resume(two))["log"] == ["a", "b", "c"]
    assert (await graph.get_state("t")).values["log"] == ["a", "b", "c"]
    assert [snapshot.checkpoint_id for snapshot in await graph.history(two)] == ["4", "3", "2", "1"]


async def test_branches_of_one_thread_are_read_each_along_its_own_parents() -> None:
    graph = abc()
    await graph.invoke({}, T)
    await graph.update_state("t", {"log": ["left"]}, checkpoint_id="2")
    await graph.update_state("t", {"log": ["right"]}, checkpoint_id="2")
    assert [(one.checkpoint_id, one.values["log"]) for one in await graph.history("t")] == [
        ("6", ["a", "right"]),
        ("5", ["a", "left"]),
        ("4", ["a", "b", "c"]),
        ("3", ["a", "b"]),
        ("2", ["a"]),
        ("1", []),
    ]
    assert (await graph.resume("t", checkpoint_id="5"))["log"] == ["a", "left", "b", "c"]


@behaviour("G92")
async def test_a_finished_thread_goes_on_with_new_input_and_another_begins_empty() -> None:
    graph = abc()
    assert (await graph.invoke({"log": ["1"]}, T))["log"] == ["1", "a", "b", "c"]
    assert (await graph.invoke({"log": ["2"], "n": 7}, T))["log"] == ["1", "a", "b", "c", "2", "a", "b", "c"]
    assert (await graph.invoke({"log": ["1"]}, ExecutionOptions(thread_id="u")))["log"] == [
        "1",
        "a",
        "b",
        "c",
    ]
    assert (await graph.invoke({"log": ["1"]}))["log"] == ["1", "a", "b", "c"]
    assert [one.step for one in await graph.history("t")] == [3, 2, 1, 0, 3, 2, 1, 0]


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


async def test_a_thread_with_unfinished_work_is_not_started_over_by_accident() -> None:
    calls: list[str] = []
    graph = abc(calls=calls)
    await stopped(graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["b"])))
    with pytest.raises(
        CheckpointError, match=r"work that is not finished \(next: 'b'\); go on with graph.resume\('t'\)"
    ):
        await graph.invoke({}, T)
    done = await graph.invoke({"log": ["again"]}, ExecutionOptions(thread_id="t", restart=True))
    assert done["log"] == ["a", "again", "a", "b", "c"]


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


async def test_two_runs_of_one_thread_do_not_overwrite_each_other() -> None:
    store = MemoryCheckpointer()
    graph = abc(store)
    await stopped(graph.invoke({}, ExecutionOptions(thread_id="t", interrupt_before=["b"])))

    async def meddle(_: Log) -> Any:
        await graph.update_state("t", {"log": ["meddled"]})
        return {"log": ["b"]}

    with pytest.raises(CheckpointError, match="somebody else"):
        await abc(store, b=meddle).resume("t")
    saved = await graph.get_state("t")
    assert (saved.values["log"], saved.next) == (["a", "meddled"], ("b",))
    assert (await graph.resume("t"))["log"] == ["a", "meddled", "b", "c"]


# --- whole threads ---------------------------------------------------------------------------------


class Later(SystemClock):
    """A clock that can be moved."""

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


@behaviour("K14")
@pytest.mark.parametrize("state", ["finished", "failed", "asking", "asking-inside"])
async def test_a_compacted_thread_keeps_its_newest_checkpoint_and_what_is_pending(state: str) -> None:
    store = MemoryCheckpointer()
    broken = True

    def flaky(_: Log) -> Any:
        if broken and state == "failed":
            raise ValueError("no")
        return {"log": [interrupt("?") if state == "asking" else "b"]}

    inner = GraphBuilder(Log).add_node("x", note("x")).add_node("ask", lambda _: {"log": [interrupt("?")]})
    inside = inner.add_edge("x", "ask").set_entry("x").build()
    calls: list[str] = []
    builder = (
        GraphBuilder(Log)
        .add_node("a", note("a"))
        .add_node("b", inside if state == "asking-inside" else flaky)
    )
    builder.add_node("c", note("c", calls)).add_edge("a", "b").add_edge("a", "c").set_entry("a")
    graph = builder.build(store)
    try:
        await graph.invoke({}, T)
    except (GraphInterruptedError, NodeFailedError):
        pass
    before = await graph.get_state("t")
    await compact(store, "t")
    await compact(store, "nobody")
    after = await graph.get_state("t")
    assert len(await graph.history("t")) == 1
    assert (after.values, after.next, after.interrupts, after.step, after.run_id) == (
        before.values,
        before.next,
        before.interrupts,
        before.step,
        before.run_id,
    )
    assert [(task.id, task.status) for task in after.tasks] == [
        (task.id, task.status) for task in before.tasks
    ]
    broken = False
    done = await graph.resume("t", "!" if "asking" in state else None)
    middle = {"asking": ["!"], "asking-inside": ["x", "!"]}.get(state, ["b"])
    assert done["log"] == ["a", *middle, "c"]
    assert calls == ["c"]


async def test_old_threads_are_forgotten() -> None:
    store, clock = MemoryCheckpointer(), Later()
    builder = GraphBuilder(Log).add_node("a", note("a")).set_entry("a")
    graph = builder.build(store, clock=clock)
    for name in ("old", "middle", "new"):
        await graph.invoke({}, ExecutionOptions(thread_id=name))
        clock.now += 100
    assert await prune(store, older_than=150, clock=clock) == ["middle", "old"]
    assert [thread.thread_id for thread in await store.threads()] == ["new"]
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


async def test_a_key_that_loses_an_entry_has_lost_it_when_it_is_read_again() -> None:
    class Desk(TypedDict, total=False):
        papers: dict[str, int]
        asked: str

    def tidy(state: Desk) -> Any:
        return {"papers": {"b": 2}}

    def ask(state: Desk) -> Any:
        return {"asked": interrupt("well?")}

    builder = GraphBuilder(Desk).add_node("tidy", tidy).add_node("ask", ask)
    desk = builder.set_entry("tidy").add_edge("tidy", "ask").add_edge("ask", END).build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError, match="waits for an answer"):
        await desk.invoke({"papers": {"a": 1, "b": 2}}, ExecutionOptions(thread_id="t"))
    assert (await desk.get_state("t")).values == {"papers": {"b": 2}}
    assert await desk.resume("t", "yes") == {"papers": {"b": 2}, "asked": "yes"}


def test_the_tasks_of_the_first_format_have_other_ids() -> None:
    built = GraphBuilder(Plain).add_node("a#1", lambda _: None).set_entry("a#1").build()
    code = StateCode(built.definition)
    body = {"next": ["a#1", ["a#1", "plain", {"value": 1}]], "deferred": ["a#1"]}
    for is_old, ids in ((True, {"a#1": "a##1", "a#1#0": "a##1#0"}), (False, {})):
        frontier, found = code.frontier(body, None, 1, is_old=is_old)
        assert [task.id for task in frontier.tasks] == ["a##1", "a##1#0"]
        assert found == ids
        assert frontier.deferred == {"a#1"}


@pytest.mark.parametrize("blocking", [False, True, None])
async def test_a_plain_function_may_ask_wherever_it_is_called(blocking: bool | None) -> None:
    builder = GraphBuilder(Plain).add_node("ask", lambda _: {"value": interrupt("?")}, blocking=blocking)
    asking = builder.set_entry("ask").build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError):
        await asking.invoke({}, ExecutionOptions(thread_id="t"))
    assert await asking.resume("t", 5) == {"value": 5}


async def test_a_run_goes_on_at_the_checkpoint_that_is_named() -> None:
    """Though the thread was just left by another run, at its end."""
    count = GraphBuilder(Plain).add_node("a", lambda state: {"value": state["value"] + 1})
    count.add_node("b", lambda state: {"value": state["value"] * 10}).set_entry("a").add_edge("a", "b")
    built = count.build(MemoryCheckpointer())
    assert await built.invoke({"value": 1}, ExecutionOptions(thread_id="t")) == {"value": 20}
    history = [one async for one in built.history("t")]
    (between,) = [one for one in history if one.values == {"value": 2}]
    (given,) = [one for one in history if one.values == {"value": 1}]
    assert await built.resume("t", checkpoint_id=between.checkpoint_id) == {"value": 20}
    await built.update_state("t", {"value": 5}, checkpoint_id=given.checkpoint_id)
    assert await built.resume("t") == {"value": 60}
