"""Stretches: what a run is given at its beginning and after each interruption, and what each stretch came to.

The ending of a stretch is kept as what it adds to the one before, so that a run with many approvals is not
kept many times.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, ClassVar

from wesichain.agent import Completed, Decision, Failed, Interrupted, RunMemory
from wesichain.core import Event, JsonValue, Message, ModelSettings, Part, Text, ToolSpec, from_json, to_json
from wesichain.core.internal import OMIT, Price, common_prefix, dataclass, is_array, is_object, same, to_plain
from wesichain.errors import ConfigError, DurableError
from wesichain.policy import Budget
from wesichain.tools import JsonTool, Tool

from .states import checked_id

_FIRST_TAG = '{"kind":"go_on"'
_SHORT = "~"  # begins the text of an ending that is kept as an addition


@dataclass(frozen=True, slots=True)
class Begin:
    """The order to begin a run."""

    kind: ClassVar[str] = "begin"
    task: str
    history: tuple[Message, ...] = field(default=(), metadata=OMIT)
    parts: tuple[Part, ...] = field(default=(), metadata=OMIT)  # of a task that is more than text
    earlier: tuple[Message, ...] = field(default=(), metadata=OMIT)  # of the conversation it is part of
    model: str = field(default="", metadata=OMIT)  # PROVIDER:NAME, in place of the agent's
    budget: JsonValue = field(default=None, metadata=OMIT)  # in place of the agent's
    settings: ModelSettings | None = field(default=None, metadata=OMIT)  # over the agent's
    tools: tuple[ToolSpec, ...] = field(default=(), metadata=OMIT)  # external ones, beside the agent's


@dataclass(frozen=True, slots=True)
class GoOn:
    """The order to go on with an interrupted run, with what people decided until then."""

    kind: ClassVar[str] = "resume_run"
    decisions: Mapping[str, Decision]
    at: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stretch of a run ended, and what it told since its last step."""

    outcome: Completed[Any] | Failed[Any] | Interrupted[Any]
    events: tuple[Event, ...] = ()


def new_id(run_id: str | None) -> str:
    """The id of a new run: the one that is given, if it may be one."""
    return secrets.token_hex(16) if run_id is None else checked_id(run_id)


async def begin_order(
    task: object,
    *,
    history: Sequence[Message] = (),
    conversation: RunMemory | None = None,
    model: object = None,
    budget: Budget | None = None,
    settings: ModelSettings | None = None,
    tools: Sequence[Tool[Any]] = (),
) -> Begin:
    """The order to begin a run of a task: a text, or texts and parts."""
    for one in tools:
        if not one.external:
            raise ConfigError(
                f"the tool {one.spec.name!r}: a durable run may go on in another process, so the tools of a "
                f"run of its own are external ones; give a tool that is run to the Agent"
            )
    if model is not None and not isinstance(model, str):
        raise ConfigError(
            f"model={model!r:.60}: a durable run may go on in another process, so its model is named, as "
            f"'PROVIDER:NAME'; give the object to the Agent"
        )
    content = content_of(task)
    text = (
        content
        if isinstance(content, str)
        else "\n".join(one.text for one in content if isinstance(one, Text))
    )
    return Begin(
        text,
        tuple(history),
        () if isinstance(content, str) else content,
        () if conversation is None else tuple(await conversation.read()),
        model or "",
        None if budget is None else to_plain(budget),
        settings,
        tuple(one.spec for one in tools),
    )


def tools_of(order: Begin) -> list[JsonTool]:
    """The external tools that a run was given beside the agent's."""
    return [JsonTool(spec.name, spec.description, spec.parameters, external=True) for spec in order.tools]


def content_of(task: object) -> str | tuple[Part, ...]:
    """The task as a text, or as parts if it is more than that."""
    if isinstance(task, str):
        return task
    given: tuple[Any, ...] = (task,) if isinstance(task, Part) else tuple(task)  # type: ignore[arg-type]  # checked below
    parts = tuple(Text(one) if isinstance(one, str) else one for one in given)
    for one in parts:
        if not isinstance(one, Part):
            raise ConfigError(f"{one!r:.60} is no part of a task: use texts, Image, Document or Audio")
    return parts


def budget_of(order: Begin) -> Budget | None:
    """The budget that a run was given, if it was."""
    plain: Any = order.budget
    if plain is None:
        return None
    prices = {
        model: Price(**price) if is_object(price) else tuple(price)
        for model, price in plain.get("prices", {}).items()
    }
    given: Any = {**plain, "prices": prices}
    return Budget(**given)


def read_order(text: str) -> Begin | GoOn:
    """The order of a workflow. The first databases of 0.2.0 call `GoOn` by another tag."""
    if text.startswith(_FIRST_TAG):
        text = '{"kind":"resume_run"' + text.removeprefix(_FIRST_TAG)
    order: Begin | GoOn = from_json(Begin | GoOn, text)
    return order


def asked_of(order: str) -> str:
    """The hash by which two orders are known to be the same."""
    return sha256(order.encode()).hexdigest()


def asked_of_begin(order: Begin) -> str:
    """The hash of an order, whatever the conversation had come to when the run began."""
    return asked_of(to_json(replace(order, earlier=())))


def run_of(workflow_id: str) -> str:
    return workflow_id.partition("/")[0]


def workflow_ids_of(run_id: str, stretch: int) -> list[str]:
    """The ids of a run's workflows, up to one of them."""
    return [run_id, *(f"{run_id}/{number}" for number in range(1, stretch + 1))]


def write_ending(ending: Ending, earlier: Sequence[str]) -> str:
    """The text of an ending: what it adds to that of the stretch before."""
    text = to_json(ending)
    if not earlier:
        return text
    return _SHORT + json.dumps(shorten(json.loads(text), _complete(earlier)), separators=(",", ":"))


def read_ending(texts: Sequence[str]) -> Ending:
    """The last of the endings of a run's stretches, of which all are given."""
    if not texts:
        raise DurableError("the run has no ending yet")
    if not texts[-1].startswith(_SHORT):
        return from_json(Ending, texts[-1])
    return from_json(Ending, json.dumps(_complete(texts)))


def _complete(texts: Sequence[str]) -> Any:
    whole: Any = None
    for text in texts:
        is_short = text.startswith(_SHORT)
        whole = restore(json.loads(text[1:]), whole) if is_short else json.loads(text)
    return whole


def shorten(now: Any, before: Any) -> dict[str, Any]:
    """A JSON value as what it adds to an earlier one."""
    if same(now, before):
        return {"same": True}
    if is_object(now) and is_object(before):
        parts = {
            key: shorten(value, before[key]) if key in before else {"new": value}
            for key, value in now.items()
        }
        return {"of": parts}
    if is_array(now) and is_array(before):
        shared = common_prefix(now, before)
        if shared:
            return {"first": shared, "then": now[shared:]}
    return {"new": now}


def restore(short: Mapping[str, Any], before: Any) -> Any:
    """The value that was shortened, with the earlier one at hand."""
    if "same" in short:
        return before
    if "of" in short:
        return {key: restore(part, before.get(key)) for key, part in short["of"].items()}
    if "first" in short:
        return [*before[: short["first"]], *short["then"]]
    return short["new"]
