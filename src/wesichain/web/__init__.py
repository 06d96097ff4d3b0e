"""The local viewer: runs, their differences, the playbook and waiting approvals in a browser.

Importing this needs neither starlette nor uvicorn; `create_app` and `run_server` do.
"""

from .all_runs import AllRuns
from .approvals import ApprovalFolder, WaitingCall
from .export import export_html
from .forks import fork, step_numbers
from .marks import Mark, Marks
from .run_store import Filter, RunStore
from .viewer_server import create_app, run_server

__all__ = [
    "AllRuns",
    "ApprovalFolder",
    "Filter",
    "Mark",
    "Marks",
    "RunStore",
    "WaitingCall",
    "create_app",
    "export_html",
    "fork",
    "run_server",
    "step_numbers",
]
