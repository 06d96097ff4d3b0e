"""Every run that was made, a line each; what is there is not run again."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path

from .play import Played

Key = tuple[str, str, str, int]  # part, arm, task, order


def key_of(run: Played) -> Key:
    return run.part, run.arm, run.task, run.order


class Store:
    """The runs of one experiment, in `runs.jsonl` of a folder. A line cut short by a kill is run again."""

    def __init__(self, folder: Path, *, quiet: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._file = folder / "runs.jsonl"
        self.runs: dict[Key, Played] = {}
        if self._file.exists():
            _drop_cut_line(self._file)
            self.runs = {key_of(run): run for run in read_runs(self._file)}
        self._out = self._file.open("a", encoding="utf-8")
        self._quiet = quiet
        self._began, self._new, self._shown = time.monotonic(), 0, 0.0
        self._planned: set[Key] = set()

    def plan(self, keys: Iterable[Key]) -> None:
        """These runs are wanted: for the progress line."""
        self._planned.update(keys)

    def get(self, key: Key) -> Played | None:
        return self.runs.get(key)

    def add(self, run: Played) -> None:
        self.runs[key_of(run)] = run
        self._out.write(json.dumps(asdict(run), ensure_ascii=False) + "\n")
        self._out.flush()
        self._new += 1
        now = time.monotonic()
        if not self._quiet and now - self._shown > 5:
            self._shown = now
            rate = self._new / max(now - self._began, 1e-9)
            left = len(self._planned - self.runs.keys())
            print(
                f"{len(self.runs)} of {left + len(self.runs)} runs, {rate:.1f} a second, "
                f"about {left / rate:.0f} s left; last: {run.part} {run.arm} {run.task}",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        self._out.close()


def read_runs(*files: Path) -> Iterator[Played]:
    """The runs of log files, packed or not."""
    names = {field.name for field in fields(Played)}
    for file in files:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for line in data.decode().splitlines():
            yield Played(**{name: value for name, value in json.loads(line).items() if name in names})


def write_packed(runs: Iterable[Played], file: Path) -> None:
    """The runs packed, the same bytes for the same runs."""
    text = "".join(json.dumps(asdict(run), ensure_ascii=False) + "\n" for run in runs)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        packed.write(text.encode())


def _drop_cut_line(file: Path) -> None:
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) != len(data):
        file.write_bytes(whole)
