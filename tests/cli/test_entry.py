"""The entry point: faults while the commands are loaded."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from wesichain.cli import main
from wesichain.errors import ConfigError


class Failing:
    """Fails when the commands are loaded."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name == "wesichain.cli.app":
            raise self.error


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (KeyboardInterrupt(), 130, ""),
        (ConfigError("no \x1b[2J"), 2, "error: no "),
        (ModuleNotFoundError("x", name="rich"), 2, "error: the command line needs the 'rich' package: "),
        (BrokenPipeError(), 0, None),
        (OSError(28, "No space left on device", "/a/b"), 2, "error: /a/b: No space left on device\n"),
        (OSError("odd"), 2, "error: odd\n"),
        (ModuleNotFoundError("x", name="mine"), None, ""),
    ],
)
def test_a_fault_while_the_commands_are_loaded(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int | None, says: str | None
) -> None:
    shown = io.StringIO()
    monkeypatch.delitem(sys.modules, "wesichain.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Failing(error), *sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "stderr", shown)
    with pytest.raises(SystemExit if status is not None else ModuleNotFoundError) as ended:
        main()
    assert sys.path[0] == "", "agents of the folder that the command is given in are found"
    if status is not None:
        assert getattr(ended.value, "code", None) == status
    assert shown.closed == (says is None)
    if says is not None:
        assert shown.getvalue().startswith(says)
        assert "\x1b" not in shown.getvalue()


def test_a_folder_of_runs_that_cannot_be_used_is_explained(
    monkeypatch: pytest.MonkeyPatch, home: Path, capsys: Any
) -> None:
    error = PermissionError(13, "Permission denied", str(home / "runs"))
    monkeypatch.delitem(sys.modules, "wesichain.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Failing(error), *sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit):
        main()
    says = f"error: {home / 'runs'}: Permission denied; $WESICHAIN_HOME says where runs are kept\n"
    assert capsys.readouterr().err == says
