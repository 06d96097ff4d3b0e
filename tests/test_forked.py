"""Tests in forks (`tests/forked.py`): what pytest reports of them is what it reports of tests in its own process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import psutil

from tests.conftest import ROOT

CONFTEST = """
import os
from pathlib import Path
import pytest
from tests.forked import Forks

def pytest_configure(config):
    config.pluginmanager.register(Forks(2))

@pytest.fixture(scope="session")
def shared():
    made = Path(__file__).with_name(f"made-{os.getpid()}")
    made.touch(exist_ok=False)
    yield made
    made.rename(made.with_name(f"ended-{os.getpid()}"))
"""
EVERY_KIND = """
import sys
import pytest

@pytest.mark.parametrize("number", range(8))
def test_passes(number, shared):
    print("not shown")

def test_fails(shared):
    print("what it printed")
    assert 1 == 2

def test_skips():
    pytest.skip("for a reason")

@pytest.mark.xfail(strict=True)
def test_is_known_to_fail():
    assert False

@pytest.fixture
def broken():
    raise ValueError("no such thing")

def test_cannot_begin(broken):
    pass
"""
DEADLY = """
import os, subprocess, sys
import pytest

@pytest.mark.parametrize("number", range(6))
def test_one(number):
    print(number)
    if number in (1, 4):
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(60); {os.environ['MARK']!r}"])
        os._exit(number)
"""


def run(folder: Path, tests: str, *options: str, mark: str = "") -> tuple[int, str]:
    (folder / "none.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_them.py").write_text(dedent(tests), encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-c",
            "none.ini",
            "--rootdir=.",
            "-ra",
            *options,
        ],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "MARK": mark, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_kind_of_result_is_reported_once_and_what_a_fork_shares_is_made_and_ended_once(
    tmp_path: Path,
) -> None:
    status, shown = run(tmp_path, EVERY_KIND)
    assert status == 1
    assert re.search(r"= 1 failed, 8 passed, 1 skipped, 1 xfailed, 1 error in", shown), shown
    assert "not shown" not in shown
    assert "what it printed" in shown
    assert "assert 1 == 2" in shown
    assert "for a reason" in shown
    assert "no such thing" in shown
    assert not [*tmp_path.glob("made-*")]
    assert 1 <= len([*tmp_path.glob("ended-*")]) <= 2


def test_a_fork_that_dies_fails_its_test_alone_and_leaves_nothing_behind(tmp_path: Path) -> None:
    status, shown = run(tmp_path, DEADLY, mark=str(tmp_path))
    assert status == 1
    assert "2 failed, 4 passed" in shown, shown
    for number in (1, 4):
        assert f"FAILED test_them.py::test_one[{number}]" in shown
        assert f"its process ended with status {number}" in shown
    assert not [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(process.info["cmdline"] or ())
    ]


def test_pytests_own_options_hold(tmp_path: Path) -> None:
    _, shown = run(tmp_path, EVERY_KIND, "-x")
    assert "stopping after 1 failures" in shown


def test_a_file_that_cannot_be_collected_ends_the_run(tmp_path: Path) -> None:
    status, shown = run(tmp_path, "import what_is_not_there")
    assert status == 2
    assert "1 error during collection" in shown
