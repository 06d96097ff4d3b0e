"""Every program does the same on every system: as it is on this machine, and on Linux under a shim for each other one."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT, SOURCES, no_durable_sqlite

SYSTEMS = ["darwin", "win32"] if sys.platform == "linux" else [sys.platform]
# What has to pass everywhere; `isolation` shows on Windows that isolated tools are refused by name.
REQUIRED = {
    "agent_run", "sqlite_logs", "line_files", "many_writers", "recordings", "run_ids", "evals", "batches", "playbook",
    "workspace", "workspace_wall", "workspace_limits", "skills", "approvals", "mcp_programs", "isolation",
}  # fmt: skip
START = """
import json, os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
if sys.platform != sys.argv[2]:
    from tests.platform.shim import apply
    apply(sys.argv[2])
from pathlib import Path
from tests.platform.programs import PROGRAMS, run_all
found = run_all(Path(sys.argv[3]), [*PROGRAMS])
Path(sys.argv[3], "found.json").write_bytes(json.dumps(found).encode())
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_program_passes(system: str, tmp_path: Path) -> None:
    """In one process: importing everything takes longer than all that the programs do."""
    command = [sys.executable, "-c", START, SOURCES, system, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=500, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    found = json.loads((tmp_path / "found.json").read_bytes())
    unusable = no_durable_sqlite() or "nothing"  # the SQLite of some Pythons is too old for a batch
    assert {name: why for name, why in found.items() if why and unusable not in why} == {}
    assert found.keys() >= REQUIRED


@pytest.mark.skipif(sys.platform != "linux", reason="there are no shims elsewhere")
def test_the_package_names_the_systems_that_were_shown() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "classifiers"
    ]
    named = {
        line.removeprefix("Operating System :: ") for line in classifiers if line.startswith("Operating")
    }
    shown = {"linux": "POSIX :: Linux", "darwin": "MacOS", "win32": "Microsoft :: Windows"}
    assert named == {shown[system] for system in ("linux", *SYSTEMS)}


def test_a_shim_takes_away_what_typeshed_declares_for_others() -> None:
    from tests.platform.unix_only import absent_modules, absent_names

    assert {"fcntl", "resource", "pwd", "grp", "termios"} <= absent_modules("win32")
    assert {"fork", "pread", "setsid", "killpg", "O_NOFOLLOW", "O_DIRECTORY"} <= absent_names("os", "win32")
    assert {"SIGKILL", "SIGCHLD", "setitimer"} <= absent_names("signal", "win32")
    assert {"send_fds", "AF_UNIX"} <= absent_names("socket", "win32")
    assert {"pidfd_open", "sched_getaffinity", "O_BINARY"} <= absent_names("os", "darwin")
    assert not {"fcntl", "resource", "pwd"} & absent_modules("darwin")
    assert not {"getpid", "open", "waitpid", "link"} & absent_names("os", "win32")
