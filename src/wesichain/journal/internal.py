"""Internal names that other packages of the framework use. Any version may change them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .entries import FORMAT as FORMAT
from .entries import Answer as Answer
from .entries import Asked as Asked
from .entries import Begin as Begin
from .entries import Check as Check
from .entries import Closing as Closing
from .entries import Debit as Debit
from .entries import Decide as Decide
from .entries import End as End
from .entries import Go as Go
from .entries import Hand as Hand
from .entries import Heard as Heard
from .entries import Intent as Intent
from .entries import Left as Left
from .entries import Limit as Limit
from .entries import ModelCall as ModelCall
from .entries import Offer as Offer
from .entries import RecordedError as RecordedError
from .entries import Reply as Reply
from .entries import Result as Result
from .entries import Rule as Rule
from .entries import Say as Say
from .entries import View as View
from .entry_names import call_place as call_place
from .entry_names import escape_id as escape_id
from .entry_names import keyed_place as keyed_place
from .entry_names import numbered_place as numbered_place
from .entry_names import parse as parse
from .exceptions import fault_of as fault_of
from .exceptions import name_of_class as name_of_class
from .exceptions import revived as revived
from .log import Follower as Follower
from .log import JournalLog as JournalLog
from .log import Unread as Unread
from .readers import register_result as register_result
from .requests import fingerprint as fingerprint

if TYPE_CHECKING:
    from .claims import Claims as Claims
    from .events import Projection as Projection
    from .events import events_of as events_of
    from .following import next_record as next_record
    from .frame import RunFrame as RunFrame
    from .frame import Stopping as Stopping
    from .journal import Journal as Journal
    from .mailbox import message as message
    from .mailbox import message_of as message_of
    from .mailbox import place_of_agent as place_of_agent
    from .mailbox import unread as unread
    from .questions import pending_call as pending_call
    from .spending import ledgers_of as ledgers_of
    from .waiting import Waiting as Waiting
    from .waiting import next_moment as next_moment
    from .waiting import pending_of as pending_of
    from .waiting import wait_for as wait_for
    from .waiting import waits_for_time as waits_for_time
    from .written import LogDecoder as LogDecoder
    from .written import LogEncoder as LogEncoder
    from .written import entry_from_plain as entry_from_plain
    from .written import log_to_plain as log_to_plain
    from .written import read_log as read_log
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..claims": ("Claims",),
            "..events": (
                "Projection",
                "events_of",
            ),
            "..frame": (
                "RunFrame",
                "Stopping",
            ),
            "..journal": ("Journal",),
            "..following": ("next_record",),
            "..mailbox": (
                "message",
                "message_of",
                "place_of_agent",
                "unread",
            ),
            "..questions": ("pending_call",),
            "..results": ("register_result",),
            "..spending": ("ledgers_of",),
            "..waiting": (
                "Waiting",
                "next_moment",
                "pending_of",
                "wait_for",
                "waits_for_time",
            ),
            "..written": (
                "LogDecoder",
                "LogEncoder",
                "entry_from_plain",
                "log_to_plain",
                "read_log",
            ),
        },
    )
