"""Stretches: the workflows of a run, each with an order to begin or resume, and an ending.

An ending is stored as the difference to that of the stretch before, so that a run with many approvals is not
stored many times.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar

from wesichain.agent import AnyModel, Completed, Decision, Failed, Interrupted, RunMemory
from wesichain.agent.internal import resolve_model
from wesichain.core import Event, Message, ModelSettings, Part, Role, ToolSpec, from_json, to_json
from wesichain.core.internal import Value, common_prefix, is_array, is_object, replace, same
from wesichain.errors import ConfigError, DurableError
from wesichain.policy import Budget
from wesichain.tools import JsonTool, Tool

from .states import checked_id

_FIRST_TAG = '{"kind":"go_on"'
_SHORT = "~"  # begins the text of an ending that is stored as a difference


class BeginWorkflow(Value, omit_defaults=True):
    """The order to begin a run."""

    kind: ClassVar[str] = "begin"
    task: str
    history: tuple[Message, ...] = ()
    parts: tuple[Part, ...] = ()  # of a task that is more than text
    earlier: tuple[Message, ...] = ()  # the messages of its conversation
    model: str = ""  # in place of the agent's: PROVIDER:NAME, or an object's name
    budget: Budget | None = None  # in place of the agent's
    settings: ModelSettings | None = None  # over the agent's
    tools: tuple[ToolSpec, ...] = ()  # external ones, beside the agent's
    conversation: str = ""  # the id of its conversation


class Resume(Value):
    """The order to resume an interrupted run, with the decisions on its calls."""

    kind: ClassVar[str] = "resume_run"
    decisions: Mapping[str, Decision]
    at: float


class Ending(Value):
    """The outcome of a stretch of a run, and the events since its last step."""

    outcome: Completed[Any] | Failed[Any] | Interrupted[Any]
    events: tuple[Event, ...] = ()


def new_id(run_id: str | None) -> str:
    """The id of a new run: the given one, which is checked, or a random one."""
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


async def begin_order(new: NewTask) -> BeginWorkflow:
    """The order to begin a run. Raises `ConfigError` for options that another process could not use."""
    for one in new.tools:
        if not one.external:
            raise ConfigError(
                f"the tool {one.spec.name!r}: another process may continue a durable run, so the tools of a "
                f"single run must be external ones; give this tool to the Agent"
            )
    asked = Message(Role.USER, new.task)
    return BeginWorkflow(
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


def tools_of(order: BeginWorkflow) -> list[JsonTool]:
    """The external tools of a run, beside those of the agent."""
    return [JsonTool(spec.name, spec.description, spec.parameters, external=True) for spec in order.tools]


def read_order(text: str) -> BeginWorkflow | Resume:
    """The order of a workflow. The first databases of 0.2.0 call `Resume` by another tag."""
    if text.startswith(_FIRST_TAG):
        text = '{"kind":"resume_run"' + text.removeprefix(_FIRST_TAG)
    order: BeginWorkflow | Resume = from_json(BeginWorkflow | Resume, text)
    return order


def asked_of(order: str) -> str:
    """The hash that identifies the input of a run."""
    return sha256(order.encode()).hexdigest()


def asked_of_begin(order: BeginWorkflow) -> str:
    """The hash of an order without its conversation, which changes between two calls with one id."""
    return asked_of(to_json(replace(order, earlier=(), conversation="")))


def run_of(workflow_id: str) -> str:
    return workflow_id.partition("/")[0]


def workflow_ids_of(run_id: str, stretch: int) -> list[str]:
    """The ids of a run's workflows, up to one of them."""
    return [run_id, *(f"{run_id}/{number}" for number in range(1, stretch + 1))]


def write_ending(ending: Ending, earlier: Sequence[str]) -> str:
    """The text of an ending: the difference to that of the stretch before."""
    text = to_json(ending)
    if not earlier:
        return text
    return _SHORT + json.dumps(shorten(json.loads(text), _complete(earlier)), separators=(",", ":"))


def read_ending(texts: Sequence[str]) -> Ending:
    """The last ending of a run, from the texts of all its endings."""
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
    """The difference of a JSON value to an earlier one."""
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
    """The value of a difference to an earlier one."""
    if "same" in short:
        return before
    if "of" in short:
        return {key: restore(part, before.get(key)) for key, part in short["of"].items()}
    if "first" in short:
        return [*before[: short["first"]], *short["then"]]
    return short["new"]
