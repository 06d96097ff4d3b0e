"""Todo: a plan that the model keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import TypedDict, override

from wesichain.agent import Capability
from wesichain.core import Message, Role
from wesichain.errors import ToolError
from wesichain.tools import RunContext, ToolContext, tool

_MAX_ITEMS = 100
_INSTRUCTIONS = (
    "For a task of several steps, write a plan with write_plan before you begin, and write it again whenever "
    "an item is begun or done. read_plan shows it to you."
)


class PlanItem(TypedDict):
    """One thing to do, and how far it is."""  # in the schema that models and recordings have

    task: str
    status: Literal["pending", "in_progress", "done"]


@tool(effect="pure")
def write_plan(items: list[PlanItem]) -> str:
    """Write the plan: all of its items, in order, in place of the plan before.

    Args:
        items: What is to be done, each with its status.
    """
    if len(items) > _MAX_ITEMS:
        raise ToolError(f"the plan has {len(items)} items; keep it to {_MAX_ITEMS}")
    done = sum(item["status"] == "done" for item in items)
    return f"The plan has {len(items)} items, {done} done."


@tool(effect="pure", blocking=False)
def read_plan(ctx: ToolContext) -> list[PlanItem]:
    """Read the plan as it was written last."""
    return plan_in(ctx.messages)


def plan_in(messages: Sequence[Message]) -> list[PlanItem]:
    """Return the last plan that was written in these messages of a run; empty if there is none."""
    failed = {message.tool_call_id for message in messages if message.role is Role.TOOL and message.is_error}
    answered = {message.tool_call_id for message in messages if message.role is Role.TOOL}
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            if call.name == "write_plan" and call.id in answered - failed:
                args: Any = call.args
                return list(args["items"])
    return []


class Todo(Capability):
    """A plan that the model keeps with `write_plan` and `read_plan`.

    The plan is stored with the run, as the arguments of the calls that write it;
    `plan_in(outcome.messages)` returns the last one.
    """

    tools = (write_plan, read_plan)

    @override
    def instructions(self, ctx: RunContext[Any]) -> str:
        return _INSTRUCTIONS
