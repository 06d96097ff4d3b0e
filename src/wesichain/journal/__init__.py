"""The journal: one log is the truth of every run, which another process can continue."""

from typing import TYPE_CHECKING

from wesichain.core.internal import Suspended, lazy_getattr

if TYPE_CHECKING:
    from .journal import Effect, Journal, JournalEntry, Moment
    from .journals import Journals, RunRow
    from .ready import FolderJournals, MemoryJournals, PostgresJournals, SqliteJournals
    from .sealing import AesCipher, Cipher
    from .waiting import Pending, Waiting
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".journal": ("Effect", "Journal", "JournalEntry", "Moment"),
            ".journals": ("Journals", "RunRow"),
            ".ready": ("FolderJournals", "MemoryJournals", "PostgresJournals", "SqliteJournals"),
            ".sealing": ("AesCipher", "Cipher"),
            ".waiting": ("Pending", "Waiting"),
        },
    )

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
