"""The journal: a function of the user as a run that survives its process, over a log of what it did."""

from wesichain.core.internal import Suspended

from .journal import Effect, Journal, JournalEntry, Moment
from .journals import Journals, RunRow
from .ready import FolderJournals, MemoryJournals, PostgresJournals, SqliteJournals
from .sealing import AesCipher, Cipher
from .waiting import Pending, Waiting

__all__ = [
    "AesCipher",
    "Cipher",
    "Effect",
    "FolderJournals",
    "Journal",
    "JournalEntry",
    "Journals",
    "MemoryJournals",
    "Moment",
    "Pending",
    "PostgresJournals",
    "RunRow",
    "SqliteJournals",
    "Suspended",
    "Waiting",
]
