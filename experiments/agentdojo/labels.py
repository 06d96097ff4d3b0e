"""Labels for the tools of the AgentDojo suites: who writes their results, and what people decide."""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from agentdojo.functions_runtime import Function, FunctionsRuntime, TaskEnvironment
from pydantic import BaseModel
from typing_extensions import TypedDict

from wesichain.tools import FromUser, Leaves, Outside, Secret, Tool, tool

# Fields that strangers write: who sends a mail, an invitation, a message or money writes them. Times, amounts
# and the names of users are facts of the server.
OUTSIDE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Email": ("id_", "sender", "recipients", "cc", "bcc", "subject", "body", "attachments"),
    "CalendarEvent": ("title", "description", "location", "participants"),
    "CloudDriveFile": ("filename", "content"),
    "Transaction": ("subject",),
    "Message": ("body",),
}
# Results that strangers write as a whole: pages, files and reviews.
OUTSIDE = frozenset({
    "get_webpage",
    "read_file",
    "get_rating_reviews_for_hotels",
    "get_rating_reviews_for_restaurants",
    "get_rating_reviews_for_car_rental",
})  # fmt: skip
# In a listing, strangers choose which ids there are. A search by a name finds what its words name.
LISTINGS = frozenset({"list_files", "search_files", "get_day_calendar_events"})
SECRET = frozenset({"get_user_information"})
LEAVES: Mapping[str, tuple[str, ...]] = {"send_email": ("subject", "body"), "post_webpage": ("content",)}


class Channels(TypedDict):
    """The channels of a workspace: those with names that the server allows, and others."""

    channels: list[str]
    others: list[Annotated[str, Outside]]


_CHANNEL = r"[A-Za-z0-9_-]{1,80}"  # the names that Slack allows; any other is a text of strangers
FROM_USER: Mapping[str, tuple[str, ...]] = {
    "send_email": ("recipients", "cc", "bcc", "attachments"),
    "delete_email": ("email_id",),
    "create_calendar_event": ("title", "participants"),
    "cancel_calendar_event": ("event_id",),
    "reschedule_calendar_event": ("event_id",),
    "add_calendar_event_participants": ("event_id", "participants"),
    "append_to_file": ("file_id",),
    "create_file": ("filename",),
    "delete_file": ("file_id",),
    "share_file": ("file_id", "email"),
    "send_money": ("recipient", "amount"),
    "schedule_transaction": ("recipient", "amount"),
    "update_scheduled_transaction": ("id", "recipient", "amount"),
    "update_password": ("password",),
    "update_user_info": ("first_name", "last_name", "street", "city"),
    "reserve_hotel": ("hotel", "start_day", "end_day"),
    "reserve_car_rental": ("company", "start_time", "end_time"),
    "reserve_restaurant": ("restaurant", "start_time"),
    "send_direct_message": ("recipient",),
    "send_channel_message": ("channel",),
    "add_user_to_channel": ("user", "channel"),
    "invite_user_to_slack": ("user", "user_email"),
    "remove_user_from_slack": ("user",),
    "get_webpage": ("url",),
    "post_webpage": ("url",),
}
_READS = ("get_", "search_", "read_", "list_", "check_")


def is_reading(name: str) -> bool:
    """Whether a tool only reads. A request for a page leaves, and is no reading."""
    return name.startswith(_READS) and name != "get_webpage"


def tools_of(
    functions: list[Function[Any, Any]],
    env: TaskEnvironment,
    ran: Callable[[str, dict[str, Any], Any], None],
    *,
    marked: bool,
) -> list[Tool]:
    """The tools of a suite over one environment. `ran` is called after each call with its result."""
    runtime = FunctionsRuntime(functions)
    return [_tool_of(one, runtime, env, ran, marked=marked) for one in functions]


def _tool_of(
    function: Function[Any, Any],
    runtime: FunctionsRuntime,
    env: TaskEnvironment,
    ran: Callable[[str, dict[str, Any], Any], None],
    *,
    marked: bool,
) -> Tool:
    name = function.name

    def run(**given: Any) -> Any:
        value, error = runtime.run_function(env, name, given)
        if error is not None:
            raise ValueError(error)
        result = channels(value) if name == "get_channels" else plain(value)
        ran(name, given, result)
        return result

    chosen = FROM_USER.get(name, ()) if marked else ()
    parameters = []
    for field, info in function.parameters.model_fields.items():
        kind: Any = info.annotation
        if field in chosen:
            kind = Annotated[kind, FromUser]
        if field in LEAVES.get(name, ()):
            kind = Annotated[kind, Leaves]
        default = inspect.Parameter.empty if info.is_required() else info.default
        parameters.append(
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        )
    returns = labelled(function.return_type, is_listing=name in LISTINGS)
    if name == "get_channels":
        returns = Channels
    elif name in SECRET:
        returns = dict[str, Annotated[str, Secret]]
    made: Any = run
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {"return": returns}
    return tool(
        made,
        name=name,
        description=function.description,
        blocking=False,
        effect="pure" if is_reading(name) else "idempotent",
        trust="outside" if name in OUTSIDE else "inside",
    )


def labelled(kind: Any, *, is_listing: bool) -> Any:
    """The type of a result, with the labels of its fields. In a list, each text has the label."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        outside = OUTSIDE_FIELDS.get(kind.__name__, ())
        fields: dict[str, Any] = {}
        for name, info in kind.model_fields.items():
            text: Any = Any
            if name in outside or (is_listing and name == "id_"):
                text = Annotated[Any, Outside]
                if getattr(info.annotation, "__origin__", None) is list:
                    text = list[text]
            fields[name] = text
        return TypedDict(kind.__name__, fields)  # type: ignore[operator]  # made at run time
    args = getattr(kind, "__args__", ())
    if getattr(kind, "__origin__", None) is list and args:
        return list[labelled(args[0], is_listing=is_listing)]  # type: ignore[misc]  # made at run time
    return Any


def plain(value: Any) -> Any:
    """A result as JSON. Times are written as the calls of the suites write them."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def channels(names: list[str]) -> dict[str, list[str]]:
    """The channels by the names that a server allows, and whatever else strangers called one."""
    known = [name for name in names if re.fullmatch(_CHANNEL, name)]
    return {"channels": known, "others": [name for name in names if name not in known]}
