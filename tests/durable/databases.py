"""A database with the tables of durable runs and nothing in them, copied: to make them takes longer than most tests."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from tests.conftest import new_folder
from wesichain.durable.store.store import Store


@cache
def _empty() -> Path:
    path = new_folder() / "runs.db"
    Store(f"sqlite:///{path}").close()
    return path


def database_in(folder: Path, name: str = "runs.db") -> str:
    """The URL of the database in a folder, which is made where there is none."""
    path = folder / name
    if not path.exists():
        shutil.copy(_empty(), path)
    return f"sqlite:///{path}"
