"""Databases of durable runs. One with nothing in its tables is copied: to make it takes longer than most tests."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
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


@contextmanager
def database(url: str) -> Iterator[sqlite3.Connection]:
    """Open a database, to look at its rows or to change them."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:
        yield db
