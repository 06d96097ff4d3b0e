"""Stretches: what a run is given at its beginning and after each interruption, and what each stretch came to.

The ending of a stretch is kept as what it adds to the one before, so that a run with many approvals is not
kept many times.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar

from wesichain.agent import AnyModel, Completed, Decision, Failed, Interrupted, RunMemory, resolve_model
from wesichain.core import Event, Message, ModelSettings, Part, Role, ToolSpec, from_json, to_json
from wesichain.core.internal import Value, common_prefix, is_array, is_object, replace, same
from wesichain.errors import ConfigError, DurableError
from wesichain.policy import Budget
from wesichain.tools import JsonTool, Tool

from .states import checked_id

_FIRST_TAG = '{"kind":"go_on"'
_SHORT = "~"  # begins the text of an ending that is kept as an addition


class Begin(Value, omit_defaults=True):
    """The order to begin a run."""

    kind: ClassVar[str] = "begin"
    task: str
    history: tuple[Message, ...] = ()
    parts: tuple[Part, ...] = ()  # of a task that is more than text
    earlier: tuple[Message, ...] = ()  # of the conversation it is part of
    model: str = ""  # in place of the agent's: PROVIDER:NAME, or an object's name
    budget: Budget | None = None  # in place of the agent's
    settings: ModelSettings | None = None  # over the agent's
    tools: tuple[ToolSpec, ...] = ()  # external ones, beside the agent's
    conversation: str = ""  # the id of the one that it is part of


class Resume(Value):
    """The order to go on with an interrupted run, with what people decided until then."""

    kind: ClassVar[str] = "resume_run"
    decisions: Mapping[str, Decision]
    at: float


class Ending(Value):
    """How a stretch of a run ended, and what it told since its last step."""

    outcome: Completed[Any] | Failed[Any] | Interrupted[Any]
    events: tuple[Event, ...] = ()


def new_id(run_id: str | None) -> str:
    """The id of a new run: the one that is given, if it may be one."""
    return secrets.token_hex(16) if run_id is None else checked_id(run_id)


class NewTask(Value):
    """A task, a text or texts and parts, with the options of its run, as `run` and `enqueue` take them."""

    task: Any
    history: Sequence[Message] = ()
    conversation: RunMemory | None = None
    model: AnyModel | None = None
    budget: Budget | None = None
    settings: ModelSettings | None = None
    tools: Sequence[Tool[Any]] = ()


async def begin_order(new: NewTask) -> Begin:
    """The order to begin a run; what cannot go on in another process is refused."""
    for one in new.tools:
        if not one.external:
            raise ConfigError(
                f"the tool {one.spec.name!r}: a durable run may go on in another process, so the tools of a "
                f"run of its own are external ones; give a tool that is run to the Agent"
            )
    asked = Message(Role.USER, new.task)
    return Begin(
        asked.text,
        tuple(new.history),
        () if isinstance(asked.content, str) else asked.content,
        () if new.conversation is None else tuple(await new.conversation.read()),
        _name_of(new.model),
        new.budget,
        new.settings,
        tuple(one.spec for one in new.tools),
        str(getattr(new.conversation, "id", "")),
    )


def _name_of(model: AnyModel | None) -> str:
    if model is None or isinstance(model, str):
        return model or ""
    resolve_model(model)  # raises where it is none
    return str(getattr(model, "model", "") or type(model).__name__)


def tools_of(order: Begin) -> list[JsonTool]:
    """The external tools that a run was given beside the agent's."""
    return [JsonTool(spec.name, spec.description, spec.parameters, external=True) for spec in order.tools]


def read_order(text: str) -> Begin | Resume:
    """The order of a workflow. The first databases of 0.2.0 call `Resume` by another tag."""
    if text.startswith(_FIRST_TAG):
        text = '{"kind":"resume_run"' + text.removeprefix(_FIRST_TAG)
    order: Begin | Resume = from_json(Begin | Resume, text)
    return order


def asked_of(order: str) -> str:
    """The hash by which two orders are known to be the same."""
    return sha256(order.encode()).hexdigest()


def asked_of_begin(order: Begin) -> str:
    """The hash of an order, whichever conversation it is part of, and whatever that had come to."""
    return asked_of(to_json(replace(order, earlier=(), conversation="")))


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
