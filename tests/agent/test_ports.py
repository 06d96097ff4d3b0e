"""The ports of well-known applications: short, and they say what they should."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import ROOT
from tests.warm import python


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flight_booking", ["flight='WN 87' ['WN 87']"]),
        ("retrieval", ["sources=['mooring', 'office']", "The office by the crane is open from eight to six"]),
    ],
)
def test_a_port_is_short_and_runs(name: str, said: list[str]) -> None:
    example = ROOT / "examples" / f"{name}.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 60
    command = [*python(), str(example)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    for text in said:
        assert text in done.stdout
