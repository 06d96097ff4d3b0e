"""Where a playbook is kept: files (with FAISS) or Postgres (with psycopg)."""

from .backend import Backend, Repaired, append, exclusive, read_lines, write_file
from .erasing import meant
from .filters import Condition, parse_where
from .journal import Cause, Delta, PlaybookChange
from .library import Decide, Library, Match, View, rank

__all__ = [
    "Backend",
    "Cause",
    "Condition",
    "Decide",
    "Delta",
    "Library",
    "Match",
    "PlaybookChange",
    "Repaired",
    "View",
    "append",
    "exclusive",
    "meant",
    "parse_where",
    "rank",
    "read_lines",
    "write_file",
]
