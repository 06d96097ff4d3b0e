"""Marks and scores: human labels of runs, in a file for `wesichain learn`, and results of evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from wesichain.core import from_json, to_json
from wesichain.core.internal import Value
from wesichain.errors import CodecError, ConfigError
from wesichain.evals import Result
from wesichain.store import Lines

_FILES = Lines(ConfigError)


class Mark(Value):
    """A human label of a run."""

    run: str
    good: bool
    why: str = ""


class Marks:
    """A file of JSON Lines, one per run: `{"run": ID, "good": true, "why": ""}`.

    The file has mode 0600. Several processes may change it: a lock keeps the changes of others.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, int], dict[str, Mark]] | None = (
            None  # with the modification time and size of the file
        )

    def all(self) -> Mapping[str, Mark]:
        """All marks, by run id."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        version = found.st_mtime_ns, found.st_size
        if self._read is None or self._read[0] != version:
            self._read = version, self._load()
        return self._read[1]

    def of(self, run_id: str) -> Mark | None:
        return self.all().get(run_id)

    def put(self, mark: Mark) -> None:
        """Store the mark of a run, in place of an earlier one."""
        self._change(mark.run, mark)

    def remove(self, run_id: str) -> None:
        self._change(run_id, None)

    def _change(self, run_id: str, mark: Mark | None) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _FILES.exclusive(self.path.with_name(f"{self.path.name}.lock")):
            marks = self._load()
            marks.pop(run_id, None)
            if mark is not None:
                marks[run_id] = mark
            _FILES.replace(self.path, [f"{to_json(one)}\n".encode() for one in marks.values()], sync=True)
            self._read = None

    def _load(self) -> dict[str, Mark]:
        marks: dict[str, Mark] = {}
        for line in self.path.read_bytes().split(b"\n") if self.path.exists() else ():
            with suppress(CodecError):  # another kind of line, or a torn one
                mark = from_json(Mark, line)
                marks[mark.run] = mark
        return marks


class Scores:
    """The results of `wesichain eval`, from a file next to the recordings. Only new lines are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._found: dict[str, Result] = {}

    def of(self, run_id: str) -> Result | None:
        self._catch_up()
        return self._found.get(run_id)

    def _catch_up(self) -> None:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < self._read:  # the file was replaced
            self._read, self._found = 0, {}
        if size == self._read:
            return
        lines, self._read = _FILES.read(self.path, self._read)
        for line in lines:
            with suppress(CodecError):  # another kind of line, or a torn one
                result = from_json(Result, line)
                self._found[result.run_id] = result
