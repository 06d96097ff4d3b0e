"""Internal names that other packages of the framework use. Any version may change them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .calls.call_approvals import check_decision as check_decision
from .drive import Drive as Drive
from .drive import OpenRun as OpenRun
from .effects import Caller as Caller
from .effects import Effects as Effects
from .effects import FixedCaller as FixedCaller
from .effects import LiveEffects as LiveEffects
from .effects import RecordedInput as RecordedInput
from .effects import unknown_outcome as unknown_outcome
from .emitter import Emitter as Emitter
from .model_names import resolve_model as resolve_model
from .phases import Active as Active
from .phases import Child as Child
from .phases import RunInfo as RunInfo
from .phases import Unfinished as Unfinished
from .phases import with_output as with_output
from .results import result_of as result_of
from .rules.checks import Refused as Refused
from .rules.tally import Tally as Tally
from .run_state import RunState as RunState
from .run_state import Settings as Settings
from .trail import Trail as Trail

if TYPE_CHECKING:
    from .handoffs.current_agent import team_of as team_of
    from .handoffs.handoff import Actor as Actor
    from .memory.stores import add_turn as add_turn
    from .memory.stores import keeps_keys as keeps_keys
    from .playback.recorded_errors import RaisedError as RaisedError
    from .playback.recorded_errors import extra_call_events as extra_call_events
    from .playback.recorded_errors import reemit as reemit
    from .playback.recorded_errors import reemit_extra_calls as reemit_extra_calls
    from .results.stream import EventQueue as EventQueue
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..handoffs.current_agent": ("team_of",),
            "..handoffs.handoff": ("Actor",),
            "..memory.stores": ("add_turn", "keeps_keys"),
            "..playback.recorded_errors": (
                "RaisedError",
                "extra_call_events",
                "reemit",
                "reemit_extra_calls",
            ),
            "..results.stream": ("EventQueue",),
        },
    )
