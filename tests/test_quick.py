"""The quick run takes what needs no more than its own process, and laws take other examples in every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import draws
from tests.conftest import ROOT
from tests.quick import is_left_out, needs_what_is_outside

TESTS = ROOT / "tests"


@pytest.mark.parametrize(
    ("place", "is_out"),
    [
        pytest.param("agent/test_phases.py", False, id="a-file-that-needs-nothing"),
        pytest.param("warm/test_warm.py", True, id="one-that-starts-processes"),
        pytest.param("cli/test_prompts.py", True, id="one-whose-helper-starts-processes"),
        pytest.param("llm/test_providers.py", True, id="one-whose-helper-has-a-server"),
        pytest.param("agent", False, id="a-folder-with-some-for-it"),
        pytest.param("web/test_guard.py", False, id="one-that-is-marked"),
        pytest.param("durable", False, id="a-folder-with-a-marked-file"),
        pytest.param("bench", True, id="a-folder-without"),
        pytest.param("conftest.py", False, id="what-every-test-has"),
    ],
)
def test_what_is_left_out(place: str, is_out: bool) -> None:
    assert is_left_out(TESTS / place) == is_out


def test_a_program_in_a_text_is_no_import(tmp_path: Path) -> None:
    file = tmp_path / "test_program.py"
    file.write_text(
        'PROGRAM = """\nimport subprocess\nfrom tests.warm import python\n"""\n', encoding="utf-8"
    )
    assert not needs_what_is_outside(file)
    file = tmp_path / "test_late.py"
    file.write_text(
        "def test() -> None:\n    from tests.warm import (\n        python,\n    )\n", encoding="utf-8"
    )
    assert needs_what_is_outside(file)


def test_a_part_of_the_cases_is_another_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for seed in ("1", "1", "2", "3"):
        monkeypatch.setattr(draws, "SEED", seed)
        parts.append(draws.chosen(range(1_000), 20))
    assert all(part == sorted(set(part)) and len(part) == 20 for part in parts)
    assert parts[0] == parts[1]
    assert parts[0] != parts[2] != parts[3]
    assert draws.chosen("abc", 9) == ["a", "b", "c"]


@pytest.mark.parametrize("is_thorough", [False, True])
def test_a_thorough_run_takes_all_cases(monkeypatch: pytest.MonkeyPatch, is_thorough: bool) -> None:
    monkeypatch.setattr(draws, "IS_THOROUGH", is_thorough)
    assert len(draws.sampled(range(100), 20)) == (100 if is_thorough else 20)
