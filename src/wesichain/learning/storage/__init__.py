"""Where a playbook is kept: files (with FAISS) or Postgres (with psycopg)."""

from .backend import Backend, Repaired, write_file
from .erasing import Eraser, find, fingerprint, meant
from .filters import Condition, parse_where
from .journal import Cause, Delta, PlaybookChange, draft
from .shelf import back_to, bullet_back_to
from .view import Decide, Match, View, rank

__all__ = [
    "Backend",
    "Cause",
    "Condition",
    "Decide",
    "Delta",
    "Eraser",
    "Match",
    "PlaybookChange",
    "Repaired",
    "View",
    "back_to",
    "bullet_back_to",
    "draft",
    "find",
    "fingerprint",
    "meant",
    "parse_where",
    "rank",
    "write_file",
]
