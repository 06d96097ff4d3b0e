"""Environments: both sides share the installed packages, unless the base was locked to others.

Two installations would cost more than the measurement itself and, of the same versions, give the same files.
So the sources lie apart, and what they import is one and the same; only where the lock file gives the base
another version of something that the scenarios run on does it get an environment of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

CORE = ("pydantic", "typing-extensions", "docstring-parser", "msgspec")
PLAYBOOK = ("numpy", "faiss-cpu")


def run_on(roots: Iterable[str] = (*CORE, *PLAYBOOK)) -> set[str]:
    """The packages of the scenarios, and their dependencies."""
    found: set[str] = set()
    wanted = list(roots)
    while wanted:
        name = normal(wanted.pop())
        if name in found:
            continue
        found.add(name)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        wanted += [_name(line) for line in needed if "extra ==" not in line]
    return found


def pins(lock: str) -> dict[str, tuple[str, ...]]:
    """The requirements in a lock file, by package: one for each platform."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lock.splitlines():
        if re.match(r"[A-Za-z0-9].*==", line):
            name = _name(line)
            found[name] = (*found.get(name, ()), line.rstrip("\\ "))
    return found


Pins = Mapping[str, tuple[str, ...]]


def differing(base: Pins, tree: Pins, names: Iterable[str]) -> list[str]:
    """The packages with different versions in the two lock files."""
    return sorted(name for name in names if base.get(name) != tree.get(name))


def install(requirements: Iterable[str], folder: Path) -> str | None:
    """The Python of a new environment with these packages; None if it cannot be created."""
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    tool = str(uv) if uv.exists() else shutil.which("uv")
    if tool:
        commands = [
            [tool, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [tool, "pip", "install", "--quiet", "--python", str(python), *requirements],
        ]
    else:
        commands = [
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *requirements],
        ]
    for command in commands:
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
    return str(python)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return normal(found.group()) if found else ""
