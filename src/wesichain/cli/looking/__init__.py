"""The commands that look at runs: trace and serve."""

from .databases import open_database
from .serving import serve
from .traces import app

__all__ = ["app", "open_database", "serve"]
