"""Internal: what the rooms of the framework share and applications do not need. Any version may change it."""

from typing import TYPE_CHECKING

from .codec import (
    check_depth,
    dump_json,
    form_of,
    forms_in,
    forms_to_jsonl,
    from_plain,
    is_array,
    is_object,
    json_changes,
    parse_json,
    to_jsonl,
    to_lines,
    to_plain,
)
from .content import (
    KEPT,
    MEDIA,
    BlobReader,
    BlobWriter,
    Media,
    content_as_text,
    described,
    made,
    media_type_of,
    omitted_line,
    parts_of,
)
from .dataclass import OMIT, UNWRITTEN, constructor_of, dataclass
from .equality import common_prefix, field_values, is_record, same
from .events import (
    Approve,
    ApproveWith,
    CheckpointSaved,
    Cut,
    Decision,
    GraphEvent,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PendingCall,
    Provide,
    Question,
    Refuse,
    RunEvent,
)
from .lazy_imports import lazy_getattr
from .listening import TEXT_LISTENER, streams_to_listener
from .log import LogView, events_in
from .positions import positions_of
from .protocols import (
    HEADING,
    CallHook,
    advise,
    around,
    check_settings,
    fit_message,
    fit_request,
    name_reply,
    say_omitted,
    traits_of,
)
from .settings import NO_SETTINGS
from .spending import NO_USAGE, AnyPrice, Price, Prices, PriceTier, Spent, cost_of, is_price
from .strict_schema import narrowed_schema, strict_schema, without_nulls
from .transcript import Transcript, text_of, tool_message, turn_of
from .waiting import GRACE, CallToken, CancellationToken, Delivery, SystemClock, abandon, backoff_delay

if TYPE_CHECKING:
    from .home import home_folder
    from .sockets import is_loopback, listening_socket
    from .state import read_state, state_update, write_state
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..home": ("home_folder",),
            "..sockets": ("is_loopback", "listening_socket"),
            "..state": (
                "read_state",
                "state_update",
                "write_state",
            ),
        },
    )

__all__ = [
    "GRACE",
    "HEADING",
    "KEPT",
    "MEDIA",
    "NO_SETTINGS",
    "NO_USAGE",
    "OMIT",
    "TEXT_LISTENER",
    "UNWRITTEN",
    "AnyPrice",
    "Approve",
    "ApproveWith",
    "BlobReader",
    "BlobWriter",
    "CallHook",
    "CallToken",
    "CancellationToken",
    "CheckpointSaved",
    "Cut",
    "Decision",
    "Delivery",
    "GraphEvent",
    "LogView",
    "Media",
    "NodeCompleted",
    "NodeFailed",
    "NodeStarted",
    "PendingCall",
    "Price",
    "PriceTier",
    "Prices",
    "Provide",
    "Question",
    "Refuse",
    "RunEvent",
    "Spent",
    "SystemClock",
    "Transcript",
    "abandon",
    "advise",
    "around",
    "backoff_delay",
    "check_depth",
    "check_settings",
    "common_prefix",
    "constructor_of",
    "content_as_text",
    "cost_of",
    "dataclass",
    "described",
    "dump_json",
    "events_in",
    "field_values",
    "fit_message",
    "fit_request",
    "form_of",
    "forms_in",
    "forms_to_jsonl",
    "from_plain",
    "home_folder",
    "is_array",
    "is_loopback",
    "is_object",
    "is_price",
    "is_record",
    "json_changes",
    "lazy_getattr",
    "listening_socket",
    "made",
    "media_type_of",
    "name_reply",
    "narrowed_schema",
    "omitted_line",
    "parse_json",
    "parts_of",
    "positions_of",
    "read_state",
    "same",
    "say_omitted",
    "state_update",
    "streams_to_listener",
    "strict_schema",
    "text_of",
    "to_jsonl",
    "to_lines",
    "to_plain",
    "tool_message",
    "traits_of",
    "turn_of",
    "without_nulls",
    "write_state",
]
