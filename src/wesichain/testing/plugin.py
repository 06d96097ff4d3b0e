"""The pytest plugin: the fixture `cassette` and the option `--wesichain=replay|record|auto|drift`.

pytest loads this module in every project where wesichain is installed. The rest of the package is imported
when a test first uses the fixture.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .cassettes import Cassette

_MODES = ("replay", "record", "auto", "drift")
_DRIFT = "wesichain_drift"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("wesichain").addoption(
        "--wesichain",
        choices=_MODES,
        default="replay",
        help="How agents of a cassette run: replay (the default: no model, no tools), record, auto (record "
        "missing cassettes), drift (replay up to the first difference, continue live, write nothing).",
    )


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Generator[Cassette]:
    """The cassette of this test: `cassette.agent(agent)` returns an agent that is recorded or replayed."""
    from .cassettes import Cassette, cassette_path
    from .seams import installed

    node: Any = request.node
    name = node.name if node.cls is None else f"{node.cls.__name__}.{node.name}"
    mode: Any = request.config.getoption("--wesichain")
    tape = Cassette(cassette_path(Path(node.path), name), mode)
    failed_before = request.session.testsfailed
    with installed(tape):
        yield tape
    for difference in tape.differences:
        node.user_properties.append((_DRIFT, difference))
    if request.session.testsfailed == failed_before:
        tape.save()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    lines: dict[str, list[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == _DRIFT and getattr(report, "when", "") == "teardown":
                    lines.setdefault(report.nodeid, []).append(value)
    if lines:
        terminalreporter.section("drift of agents")
        for nodeid, differences in sorted(lines.items()):
            terminalreporter.write_line(nodeid)
            for difference in differences:
                terminalreporter.write_line(f"  {difference}")
