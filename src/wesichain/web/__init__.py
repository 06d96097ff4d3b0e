"""The local viewer: runs, their differences, the playbook and waiting approvals in a browser.

Importing this needs neither starlette nor uvicorn; `create_app` and `run_server` do.
"""

from .approvals import ApprovalFolder, WaitingCall
from .export import export_html
from .server import create_app, run_server

__all__ = ["ApprovalFolder", "WaitingCall", "create_app", "export_html", "run_server"]
