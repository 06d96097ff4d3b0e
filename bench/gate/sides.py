"""Sides: the two source trees, built separately, and their processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 120.0  # seconds to wait for an answer
MODULE = "bench.scenarios"


class CrashedError(Exception):
    """The process died, or did not answer."""


@dataclass(frozen=True, slots=True)
class Side:
    """A named source tree. Both run the scenarios of this checkout."""

    name: str
    source: Path
    module: str = MODULE
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = os.pathsep.join((str(self.source), str(ROOT)))
        return (
            kept
            | {"PYTHONPATH": path, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
            | dict(self.environment)
        )


def build(name: str, source: Path, folder: Path, *, python: str = sys.executable) -> Side:
    """Copy a source tree, so that nobody edits it while it is measured.

    Its byte code is written by the first process that imports it, which is that of the memory.
    """
    target = folder / name
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    return Side(name, target, python=python)


class Worker:
    """A process of a side, started with the first request, and again after a crash."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._process: subprocess.Popen[str] | None = None

    def ask(self, **question: Any) -> dict[str, Any]:
        """Its answer; `error` is the exception of a scenario."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self.close()
            raise CrashedError(f"its process ended with status {process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._side.python, "-m", "bench.gate.worker", self._side.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._side.variables(),
            cwd=self._side.source,
        )

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
