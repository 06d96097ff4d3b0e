"""The commands that look at runs: trace and serve."""

from .serving import serve
from .traces import app, open_database

__all__ = ["app", "open_database", "serve"]
