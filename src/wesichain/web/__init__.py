"""The viewer: runs, their differences, the playbook and pending approvals in a browser.

Only `create_app` and `run_server` need starlette and uvicorn.
"""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .approvals import ApprovalFolder, WaitingCall
from .export import export_html
from .forks import fork
from .marks import Mark, Marks

if TYPE_CHECKING:
    from .app import create_app
    from .viewer_server import run_server
else:
    __getattr__ = lazy_getattr(__name__, {".app": ("create_app",), ".viewer_server": ("run_server",)})

__all__ = [
    "ApprovalFolder",
    "Mark",
    "Marks",
    "WaitingCall",
    "create_app",
    "export_html",
    "fork",
    "run_server",
]
