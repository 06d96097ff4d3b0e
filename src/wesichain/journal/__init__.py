"""The journal: one log under every run, which a run continues from, and which everything else is read from."""

from .functions import Pending, Waiting
from .journal import Effect, Journal, JournalEntry, Moment
from .journals import Journals, RunRow
from .ready import FolderJournals, MemoryJournals, PostgresJournals, SqliteJournals
from .sealing import AesCipher, Cipher
from .suspended import Suspended

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
