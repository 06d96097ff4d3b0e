"""The journal: what the steps of a run have come to, written down before the loop hears of it."""

from .durable_effects import DurableEffects, is_of
from .event_journal import EventJournal
from .inside import Inside, Visitors, visit_scope
from .records import Conversed, JournalRecord, Raised, StepRecord, fingerprint, read_record, written
from .step_journal import MAX_STEP, CancelledRunError, LostRunError, Program, Step, StepJournal

__all__ = [
    "MAX_STEP",
    "CancelledRunError",
    "Conversed",
    "DurableEffects",
    "EventJournal",
    "Inside",
    "JournalRecord",
    "LostRunError",
    "Program",
    "Raised",
    "Step",
    "StepJournal",
    "StepRecord",
    "Visitors",
    "fingerprint",
    "is_of",
    "read_record",
    "visit_scope",
    "written",
]
