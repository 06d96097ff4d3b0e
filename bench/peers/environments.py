"""Environments: a virtual environment per contestant, with pinned requirements."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"
CACHE = ROOT / ".cache" / "peers"


@dataclass(frozen=True, slots=True)
class Contestant:
    """An adapter and the requirements it runs with."""

    name: str
    environment: str


YARDSTICK = Contestant("handwritten", "wesichain")  # the same pydantic as ours
OURS = Contestant("wesichain", "wesichain")
PEERS = tuple(
    Contestant(name, name)
    for name in (
        "agent_framework",
        "agno",
        "burr",
        "crewai",
        "dspy",
        "google_adk",
        "langchain",
        "llamaindex",
        "openai_agents",
        "pydantic_ai",
        "smolagents",
        "strands",
    )
)
LANGCHAIN = next(peer for peer in PEERS if peer.name == "langchain")  # its environment has LangGraph
CONTESTANTS = (YARDSTICK, OURS, *PEERS)

NO_TELEMETRY = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


class InstallError(Exception):
    """An environment could not be made; the message is the installer's last line."""


def select(only: str | None) -> tuple[Contestant, ...]:
    """The contestants with these comma-separated names, and the baseline; without names, all."""
    if not only:
        return CONTESTANTS
    names = set(only.split(","))
    if unknown := names - {contestant.name for contestant in CONTESTANTS}:
        known = ", ".join(contestant.name for contestant in CONTESTANTS)
        raise SystemExit(f"unknown contestant {', '.join(sorted(unknown))}; there are {known}")
    return tuple(c for c in CONTESTANTS if c.name in names or c is YARDSTICK)


def child_environ(home: Path) -> dict[str, str]:
    """A clean set of variables: no keys, no telemetry, with bytecode caches."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return kept | NO_TELEMETRY | {"HOME": str(home), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}


def prepare(name: str, cache: Path) -> Path:
    """The Python of the environment, which is created if its requirements have changed."""
    requirements = REQUIREMENTS / f"{name}.txt"
    folder = cache / name
    python = folder / "bin" / "python"
    stamp = folder / "requirements.sha256"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    count = sum(1 for line in requirements.read_text().splitlines() if line)
    print(f"installing {name} ({count} packages)", file=sys.stderr, flush=True)
    uv = find_uv()
    if uv:
        _call(uv, "venv", "--python", sys.executable, str(folder))
        _call(uv, "pip", "install", "--compile-bytecode", "--python", str(python), "-r", str(requirements))
    else:
        _call(sys.executable, "-m", "venv", str(folder))
        _call(str(python), "-m", "pip", "install", "-r", str(requirements))
    stamp.write_text(digest)
    return python


def renew_pins() -> None:
    """Resolve each requirements/NAME.in into NAME.txt."""
    uv = find_uv()
    if not uv:
        raise SystemExit("renewing the pins needs uv: pip install uv")
    for source in sorted(REQUIREMENTS.glob("*.in")):
        print(f"resolving {source.stem}", file=sys.stderr, flush=True)
        pinned = source.with_suffix(".txt")
        form = ["--universal", "--python-version=3.11", "--no-header", "--no-annotate", "--no-emit-index-url"]
        _call(uv, "pip", "compile", "--upgrade", *form, str(source), "-o", str(pinned))


def find_uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InstallError(lines[-1] if lines else f"{command[0]} failed")
