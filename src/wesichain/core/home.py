"""The folder of a user's data: recordings, playbooks, models."""

from __future__ import annotations

import os
from pathlib import Path

from wesichain.platform.system import data_folder


def home_folder() -> Path:
    """`$WESICHAIN_HOME`, else `wesichain` in the user's data folder. Nothing is created."""
    if home := os.environ.get("WESICHAIN_HOME"):
        return Path(home).expanduser()
    return data_folder() / "wesichain"
