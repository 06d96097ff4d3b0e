"""Internal names that other packages of the framework use. Any version may change them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .backend import Backend as Backend
from .backend import Caller as Caller
from .backend import LiveBackend as LiveBackend
from .calls.questions import check_decision as check_decision
from .drive import Drive as Drive
from .drive import OpenRun as OpenRun
from .listeners import follow as follow
from .model_names import resolve_model as resolve_model
from .phases import Active as Active
from .phases import outcome_of as outcome_of
from .phases import with_output as with_output
from .results import result_of as result_of
from .rules.checks import Refused as Refused
from .rules.tally import Tally as Tally
from .run_info import RunInfo as RunInfo
from .run_place import RunPlace as RunPlace
from .run_state import RunState as RunState
from .run_state import Settings as Settings
from .trail import Trail as Trail

if TYPE_CHECKING:
    from .handoffs.current_agent import team_of as team_of
    from .handoffs.handoff import Actor as Actor
    from .memory.stores import add_turn as add_turn
    from .memory.stores import keeps_keys as keeps_keys
    from .results.stream import EventQueue as EventQueue
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..handoffs.current_agent": ("team_of",),
            "..handoffs.handoff": ("Actor",),
            "..memory.stores": ("add_turn", "keeps_keys"),
            "..results.stream": ("EventQueue",),
        },
    )
