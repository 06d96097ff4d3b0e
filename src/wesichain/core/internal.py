"""Internal names that the packages of the framework share. Any version may change them."""

from typing import TYPE_CHECKING

from .codec import JsonObject as JsonObject
from .codec import check_depth as check_depth
from .codec import dump_json as dump_json
from .codec import find_json_object as find_json_object
from .codec import form_of as form_of
from .codec import form_to_json as form_to_json
from .codec import forms_in as forms_in
from .codec import forms_to_jsonl as forms_to_jsonl
from .codec import from_plain as from_plain
from .codec import is_array as is_array
from .codec import is_object as is_object
from .codec import json_changes as json_changes
from .codec import parse_json as parse_json
from .codec import to_jsonl as to_jsonl
from .codec import to_lines as to_lines
from .codec import to_plain as to_plain
from .content import KEPT as KEPT
from .content import MEDIA as MEDIA
from .content import BlobReader as BlobReader
from .content import BlobWriter as BlobWriter
from .content import Media as Media
from .content import content_as_text as content_as_text
from .content import described as described
from .content import made as made
from .content import media_type_of as media_type_of
from .content import omitted_line as omitted_line
from .content import parts_of as parts_of
from .equality import common_prefix as common_prefix
from .equality import field_values as field_values
from .equality import is_record as is_record
from .equality import same as same
from .events import AdviceShown as AdviceShown
from .events import AgentEvent as AgentEvent
from .events import Approve as Approve
from .events import ApproveWith as ApproveWith
from .events import CheckpointSaved as CheckpointSaved
from .events import ContextReduced as ContextReduced
from .events import Cut as Cut
from .events import Decided as Decided
from .events import Decision as Decision
from .events import GraphEvent as GraphEvent
from .events import HandedOff as HandedOff
from .events import MessageReceived as MessageReceived
from .events import NodeCompleted as NodeCompleted
from .events import NodeFailed as NodeFailed
from .events import NodeStarted as NodeStarted
from .events import OutputDelta as OutputDelta
from .events import PendingCall as PendingCall
from .events import Provide as Provide
from .events import Question as Question
from .events import RefusalOf as RefusalOf
from .events import Refuse as Refuse
from .events import RunEvent as RunEvent
from .events import ToolProgress as ToolProgress
from .events import ToolsOffered as ToolsOffered
from .events import check_decisions as check_decisions
from .identity import Identity as Identity
from .identity import roles_of as roles_of
from .lazy_imports import lazy_getattr as lazy_getattr
from .listening import TEXT_LISTENER as TEXT_LISTENER
from .listening import streams_to_listener as streams_to_listener
from .log import LogView as LogView
from .log import events_in as events_in
from .masking import SecretFilter as SecretFilter
from .masking import is_placeholder as is_placeholder
from .masking import mask_secrets as mask_secrets
from .masking import placeholder as placeholder
from .masking import replace_spans as replace_spans
from .messages import FinishReason as FinishReason
from .messages import StreamItem as StreamItem
from .opening import makes_contexts as makes_contexts
from .opening import opened as opened
from .plain_text import readings as readings
from .positions import positions_of as positions_of
from .protocols import HEADING as HEADING
from .protocols import Advice as Advice
from .protocols import Adviser as Adviser
from .protocols import CallHook as CallHook
from .protocols import LlmTraits as LlmTraits
from .protocols import StreamingLlm as StreamingLlm
from .protocols import advise as advise
from .protocols import around as around
from .protocols import check_settings as check_settings
from .protocols import fit_message as fit_message
from .protocols import fit_request as fit_request
from .protocols import name_reply as name_reply
from .protocols import other_models as other_models
from .protocols import say_omitted as say_omitted
from .protocols import traits_of as traits_of
from .secret_names import is_secret_name as is_secret_name
from .secret_names import may_be_secret_name as may_be_secret_name
from .secrets import PLACEHOLDER as PLACEHOLDER
from .secrets import SECRETS as SECRETS
from .secrets import SecretIndex as SecretIndex
from .secrets import environment_secrets as environment_secrets
from .secrets import register_fields as register_fields
from .secrets import register_named as register_named
from .secrets import register_recent as register_recent
from .secrets import register_secret as register_secret
from .secrets import register_url as register_url
from .secrets import sent_secrets as sent_secrets
from .settings import NO_SETTINGS as NO_SETTINGS
from .settings import Caching as Caching
from .settings import Reasoning as Reasoning
from .spending import NO_USAGE as NO_USAGE
from .spending import AnyPrice as AnyPrice
from .spending import Price as Price
from .spending import Prices as Prices
from .spending import PriceTier as PriceTier
from .spending import Spent as Spent
from .spending import cost_of as cost_of
from .spending import is_price as is_price
from .spending import unchecked_usage as unchecked_usage
from .suspended import Suspended as Suspended
from .transcript import Transcript as Transcript
from .transcript import text_of as text_of
from .transcript import tool_message as tool_message
from .transcript import turn_of as turn_of
from .values import Mutable as Mutable
from .values import Value as Value
from .values import field as field
from .values import force_setattr as force_setattr
from .values import replace as replace
from .waiting import GRACE as GRACE
from .waiting import CallToken as CallToken
from .waiting import CancellationToken as CancellationToken
from .waiting import Clock as Clock
from .waiting import Delivery as Delivery
from .waiting import SystemClock as SystemClock
from .waiting import abandon as abandon
from .waiting import backoff_delay as backoff_delay
from .waiting import running_loop as running_loop
from .waiting import stray_cancel as stray_cancel

if TYPE_CHECKING:
    from .home import home_folder as home_folder
    from .sockets import announce_when_started as announce_when_started
    from .sockets import is_loopback as is_loopback
    from .sockets import listening_socket as listening_socket
    from .state import read_state as read_state
    from .state import state_update as state_update
    from .state import write_state as write_state
    from .strict_schema import narrowed_schema as narrowed_schema
    from .strict_schema import strict_schema as strict_schema
    from .strict_schema import without_nulls as without_nulls
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..home": ("home_folder",),
            "..sockets": ("announce_when_started", "is_loopback", "listening_socket"),
            "..state": ("read_state", "state_update", "write_state"),
            "..strict_schema": ("narrowed_schema", "strict_schema", "without_nulls"),
        },
    )
