"""The folder of a user's data: recordings, playbooks, models."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def home_folder() -> Path:
    """`$WESICHAIN_HOME`, else `wesichain` in the user's data folder. Nothing is created."""
    if home := os.environ.get("WESICHAIN_HOME"):
        return Path(home).expanduser()
    if sys.platform == "win32":
        data = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        data = "~/Library/Application Support"
    else:
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "wesichain"
