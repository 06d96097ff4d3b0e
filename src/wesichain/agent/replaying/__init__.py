"""Replaying: a recording as a script that the loop follows."""

from .revive import refusal_in, retell, revived_cause, revived_dispatch, revived_error
from .script import Script

__all__ = ["Script", "refusal_in", "retell", "revived_cause", "revived_dispatch", "revived_error"]
