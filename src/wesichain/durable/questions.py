"""Questions: the stored ending of a graph's run, and the questions that it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from wesichain.agent.internal import check_decision as check_call_decision
from wesichain.core import Event, JsonValue, ToolCall, from_json, to_json
from wesichain.core.internal import (
    Decision,
    PendingCall,
    Provide,
    RefusalOf,
    Value,
    dump_json,
    from_plain,
    to_plain,
)
from wesichain.core.internal import Question as CallQuestion
from wesichain.errors import CodecError, ConfigError, DurableError

from .states import PendingDecision

_GRAPH = "graph "  # begins the text of the ending of a graph's run


class Question(Value):
    """A question of a node to a person."""

    id: str
    node: str
    value: JsonValue = None


class GraphEnding(Value, omit_defaults=True):
    """The ending of a stretch of a graph's run, without the state, which the checkpointer stores."""

    __always__: ClassVar[tuple[str, ...]] = ("error",)

    kind: str  # completed, failed or interrupted
    error: str = ""
    questions: tuple[Question, ...] = ()
    events: tuple[Event, ...] = ()


def questions_of(interrupts: Iterable[Any]) -> tuple[Question, ...]:
    """The questions of a graph as JSON; a value that is not JSON becomes text."""
    return tuple(Question(item.id, item.node, _plain(item.value)) for item in interrupts)


def _plain(value: Any) -> JsonValue:
    try:
        return to_plain(value)  # type: ignore[no-any-return]  # JSON, as it says
    except CodecError:
        return str(value)


def write_graph_ending(ending: GraphEnding) -> str:
    return _GRAPH + to_json(ending)


def graph_ending(texts: Sequence[str]) -> GraphEnding | None:
    """The ending of a graph's run; None if these are the endings of an agent's run."""
    is_one = bool(texts) and texts[-1].startswith(_GRAPH)
    return from_json(GraphEnding, texts[-1].removeprefix(_GRAPH)) if is_one else None


def decisions_on(run_id: str, agent: str, ending: GraphEnding) -> list[PendingDecision]:
    """The questions as external calls, whose results are the answers. The question of an agent in a node
    becomes the agent's waiting calls, each with a token that begins with the question's id."""
    found: list[PendingDecision] = []
    for one in ending.questions:
        calls = _calls_of(one)
        if calls is None:
            call = ToolCall(one.id, one.node, one.value)
            found.append(PendingDecision(run_id, agent, call, one.id, external=True))
            continue
        for asked in calls:
            call = ToolCall(asked.id, asked.tool, asked.args)
            scope, token = (one.node, *asked.scope), f"{one.id}.{asked.token}"
            waits = (token, scope, asked.expires_at, asked.external, asked.question)
            found.append(PendingDecision(run_id, agent, call, *waits, why=asked.why))
    return found


class _Call(Value):
    """A call that waits in an agent in a node, as its question has it."""

    token: str
    id: str
    tool: str
    args: JsonValue
    scope: tuple[str, ...]
    external: bool
    expires_at: float | None = None
    question: CallQuestion | None = None
    why: str = ""


def _calls_of(question: Question) -> tuple[_Call, ...] | None:
    """The calls that a question is about; None if a node has asked it itself."""
    value = question.value
    if not isinstance(value, dict) or value.keys() != {"reason", "calls"}:
        return None
    try:
        return from_plain(tuple[_Call, ...], value["calls"]) or None
    except CodecError:
        return None


def check_decision(
    item: PendingDecision, decision: Decision, now: float, refusal_of: RefusalOf | None
) -> None:
    """Check that the decision fits the call and comes in time; questions of graphs need `Provide(value)`.

    Raises `DurableError`, whose cause is the `ConfigError` with the reason.
    """
    waits = (item.expires_at, item.scope, item.external, item.question, item.parameters)
    try:
        if item.call.id == item.token:
            _check_graph_answer(item, decision)
        asked = PendingCall(item.call, item.token, *waits)
        check_call_decision(asked, decision, refusal_of, now=now, remedy="run the task again")
    except ConfigError as error:
        raise DurableError(str(error)) from error


def _check_graph_answer(item: PendingDecision, decision: Decision) -> None:
    if not isinstance(decision, Provide) or decision.error is not None:
        raise ConfigError(f"{decision!r} is not an answer to {item.call.name!r}; use Provide(value)")


def answers_order(decided: Mapping[str, Decision]) -> str:
    """The order to continue a graph's run, once each of its questions is answered."""
    values: dict[str, Any] = {}
    for token, one in decided.items():
        question, _, call = token.partition(".")
        if call:
            values.setdefault(question, {})[call] = to_plain(one)
        elif isinstance(one, Provide):
            values[question] = to_plain(one.value)
    return dump_json({"answers": values})
