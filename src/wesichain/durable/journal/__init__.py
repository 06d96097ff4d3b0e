"""The journal: what the steps of a run have come to, written down before the loop hears of it."""

from .effects import DurableEffects, is_of
from .inside import Inside, Visitors, visit_scope
from .journal import MAX_STEP, Journal, LostRunError, Program, Step
from .records import Conversed, Deed, Raised, Record, fingerprint, written
from .telling import Telling

__all__ = [
    "MAX_STEP",
    "Conversed",
    "Deed",
    "DurableEffects",
    "Inside",
    "Journal",
    "LostRunError",
    "Program",
    "Raised",
    "Record",
    "Step",
    "Telling",
    "Visitors",
    "fingerprint",
    "is_of",
    "visit_scope",
    "written",
]
