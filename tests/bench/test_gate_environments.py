"""What the two sides of the gate run on."""

from __future__ import annotations

import pytest
from bench.gate.environments import differing, pins, run_on

LOCK = """
numpy==2.3.5 ; python_full_version < '3.12' \\
    --hash=sha256:aa
numpy==2.5.4 ; python_full_version >= '3.12' \\
    --hash=sha256:bb
Typing_Extensions==4.16.0 \\
    --hash=sha256:cc
"""


def test_a_lock_is_read_without_its_hashes() -> None:
    assert pins(LOCK) == {
        "numpy": (
            "numpy==2.3.5 ; python_full_version < '3.12'",
            "numpy==2.5.4 ; python_full_version >= '3.12'",
        ),
        "typing-extensions": ("Typing_Extensions==4.16.0",),
    }


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param(LOCK, [], id="the same"),
        pytest.param(LOCK.replace("sha256:aa", "sha256:dd"), [], id="other files of the same version"),
        pytest.param(LOCK.replace("2.5.4", "2.6.0"), ["numpy"], id="another version"),
        pytest.param("", ["numpy", "typing-extensions"], id="no lock at all"),
    ],
)
def test_what_differs_between_two_locks(other: str, found: list[str]) -> None:
    assert differing(pins(LOCK), pins(other), ["numpy", "typing-extensions"]) == found


def test_a_package_that_the_scenarios_do_not_run_on_does_not_matter() -> None:
    assert differing(pins(LOCK), {}, []) == []


def test_the_scenarios_run_on_what_their_packages_require() -> None:
    assert {"pydantic", "pydantic-core", "annotated-types"} <= run_on()
    assert "pytest" not in run_on()
