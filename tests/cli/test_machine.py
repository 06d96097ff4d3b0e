"""doctor: what is found on this machine."""

from __future__ import annotations

import os
import re
import socket
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import serving
from tests.conftest import ROOT
from wesichain.cli import machine
from wesichain.core.internal import dump_json
from wesichain.llm.local import MODELS
from wesichain.llm.local.files.cache import proof_of


def test_a_model_in_the_cache_is_named_and_not_fetched(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    card = MODELS[0]
    path = tmp_path / card.file
    monkeypatch.setenv("WESICHAIN_MODELS", str(tmp_path))
    rows = {line.split()[0]: line for line in models(wesichain)}
    assert " no " in rows[f"local:{card.name}"]
    with path.open("wb") as file:
        file.truncate(card.size)  # a file without a block
    proof = {"size": card.size, "mtime_ns": path.stat().st_mtime_ns, "sha256": card.sha256}
    proof_of(path).write_text(dump_json(proof))
    rows = {line.split()[0]: line for line in models(wesichain)}
    assert " yes " in rows[f"local:{card.name}"]
    assert f"{card.size / 1e6:.0f} MB" in rows[f"local:{card.name}"]
    done = wesichain("doctor", "--fetch", card.name)
    assert (done.status, done.out) == (0, f"{path}\n")
    assert "1 in " in wesichain("doctor").out


def models(wesichain: Command) -> list[str]:
    done = wesichain("doctor", "--models")
    assert done.status == 0
    return [line for line in done.out.splitlines() if line.startswith("local:")]


def test_a_model_that_cannot_be_stored_is_one_line(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WESICHAIN_MODELS", "/proc/none")
    for args in (("ask", "hi", "--model"), ("chat", "--model")):
        done = wesichain(*args, f"local:{MODELS[0].name}")
        assert (done.status, "cannot be stored in /proc/none" in done.err) == (2, True)


def test_the_doctor_says_what_is_missing(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def version(package: str) -> str:
        if package == "typer":
            raise PackageNotFoundError
        return "1.0"

    assert machine._version("no-such-package") is None
    monkeypatch.setattr(machine, "version", version)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for names in machine.KEYS:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    rows = [*machine._extras(), *machine._keys(), *machine._home()]
    assert ("--", "cli", "typer not installed", "pip install 'wesichain[cli]'") in rows
    assert (
        "!!",
        "data folder",
        f"{home} cannot be written",
        "set WESICHAIN_HOME to a folder of yours",
    ) in rows
    assert {row[0] for row in machine._keys()} == {"--"}
    assert wesichain("doctor").status == 1


def test_the_doctor_knows_every_extra_and_the_keys_of_every_provider(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    out = wesichain("doctor").out
    assert re.search(r"ok +GEMINI_API_KEY +set", out)
    for name in (*extras.keys() - {"all"}, "AWS_ACCESS_KEY_ID"):
        assert name in out


def test_the_doctor_looks_for_a_server_at_the_port_of_its_address(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], **_: float) -> None:
        tried.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    for url in ("https://models.example/v1", "http://models.example/v1", "http://models.example:8000/v1"):
        wesichain("doctor", url=url)
    assert [port for host, port in tried if host == "models.example"] == [443, 80, 8000]


def test_the_doctor_says_what_can_be_reached(wesichain: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as url:
        monkeypatch.setattr(machine, "_OLLAMA", url)
        out = wesichain("doctor", url=url).out
        assert re.search(r"ok +OPENAI_BASE_URL +reachable *$", out, re.MULTILINE)
        assert re.search(r"ok +ollama +running *$", out, re.MULTILINE)
    out = wesichain("doctor").out
    assert re.search(r"-- +OPENAI_BASE_URL +no answer +start it, or unset", out)
    assert re.search(r"-- +ollama +not running +'ollama serve' starts it", out)
