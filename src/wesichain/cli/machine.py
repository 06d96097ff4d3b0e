"""doctor: what is installed and configured, and the local models."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from wesichain import __version__
from wesichain.core.internal import home_folder
from wesichain.llm.local import MODELS, StderrProgress, cached_model, fetch_model, find_model, models_folder

from .terminal import FAILED, OK, echo, table, waiting

_OLLAMA = "http://127.0.0.1:11434"
# The variables of each provider, of which one is enough.
KEYS = (
    ("OPENAI_API_KEY",),
    ("ANTHROPIC_API_KEY",),
    ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"),
)


def doctor(
    *,
    models: Annotated[bool, typer.Option("--models", help="List the known local models instead.")] = False,
    fetch: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Download this local model into the cache.")
    ] = None,
) -> None:
    """List what is installed, what is configured, and what is missing."""
    if fetch is not None:
        echo(str(fetch_model(find_model(fetch), progress=StderrProgress())))
        return
    if models:
        _list_models()
        return
    with waiting("checking"):
        rows = [*_python(), *_extras(), *_keys(), *_servers(), *_home()]
    table(("", "what", "state", "what to do"), rows)
    raise typer.Exit(FAILED if any(row[0] == "!!" for row in rows) else OK)


Row = tuple[str, str, str, str]


def _python() -> Iterator[Row]:
    yield "ok", "wesichain", __version__, ""
    yield "ok", "python", sys.version.split()[0], ""


def _extras() -> Iterator[Row]:
    declared = re.findall(
        r"""^([\w.-]+).*extra == ['"](\w+)""", "\n".join(requires("wesichain") or ()), re.MULTILINE
    )
    for extra in sorted({extra for _, extra in declared} - {"all"}):
        found = {package: _version(package) for package, of in declared if of == extra}
        missing = [name for name, number in found.items() if number is None]
        if missing:
            yield "--", extra, f"{', '.join(missing)} not installed", f"pip install 'wesichain[{extra}]'"
        else:
            yield "ok", extra, ", ".join(f"{name} {number}" for name, number in found.items()), ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _keys() -> Iterator[Row]:
    for names in KEYS:
        if found := [name for name in names if os.environ.get(name)]:
            yield "ok", found[0], "set", ""
        else:
            remedy = f"set {' or '.join(names)} to use that provider; local: models need none"
            yield "--", names[0], "not set", remedy


def _servers() -> Iterator[Row]:
    """The model servers: the one in OPENAI_BASE_URL, and Ollama on this machine."""
    named = os.environ.get("OPENAI_BASE_URL", "")
    if named:
        found = _is_reachable(named)
        hint = "" if found else "start it, or unset OPENAI_BASE_URL"
        yield ("ok" if found else "--"), "OPENAI_BASE_URL", "reachable" if found else "no answer", hint
    found = _is_reachable(_OLLAMA)
    hint = "" if found else "'ollama serve' starts it; only ollama: models need it"
    yield ("ok" if found else "--"), "ollama", "running" if found else "not running", hint


def _is_reachable(url: str) -> bool:
    """Whether a server listens at this address. Nothing is sent."""
    try:
        where = urlsplit(url)
        port = where.port or (443 if where.scheme == "https" else 80)
        socket.create_connection((where.hostname or "", port), timeout=1.0).close()
    except (OSError, ValueError):
        return False
    return True


def _home() -> Iterator[Row]:
    home = home_folder()
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    if os.access(nearest, os.W_OK):
        runs = len(list((home / "runs").glob("*.jsonl"))) if (home / "runs").is_dir() else 0
        yield "ok", "data folder", f"{home} ({runs} runs)", ""
    else:
        yield "!!", "data folder", f"{home} cannot be written", "set WESICHAIN_HOME to a folder of yours"
    models = Path(os.environ.get("WESICHAIN_MODELS") or home / "models")
    count = len(list(models.glob("*.gguf"))) if models.is_dir() else 0
    hint = "" if count else "wesichain doctor --fetch qwen2.5-coder-0.5b"
    yield ("ok" if count else "--"), "local models", f"{count} in {models}", hint


def _list_models() -> None:
    table(
        ("model", "size", "licence", "here", "about"),
        (
            (
                f"local:{card.name}",
                f"{card.size / 1e6:.0f} MB",
                card.licence,
                "yes" if cached_model(card) else "no",
                card.about,
            )
            for card in MODELS
        ),
    )
    echo(f"\ndownloads are stored in {models_folder()}")
