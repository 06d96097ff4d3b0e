"""The journal: what the steps of a run have come to, written down before the loop hears of it."""

from .durable_effects import DurableEffects, is_of
from .event_journal import EventJournal
from .inside import Inside
from .records import Conversed, JournalRecord, StepRecord, fingerprint, read_record, written
from .step_journal import MAX_STEP, Program, Step, StepJournal

__all__ = [
    "MAX_STEP",
    "Conversed",
    "DurableEffects",
    "EventJournal",
    "Inside",
    "JournalRecord",
    "Program",
    "Step",
    "StepJournal",
    "StepRecord",
    "fingerprint",
    "is_of",
    "read_record",
    "written",
]
