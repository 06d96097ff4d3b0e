"""The site as `make docs` builds it, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def environment() -> Path:
    """The environment of the site, as `make docs` makes it; skips where it cannot be made."""
    given = os.environ.get("WESICHAIN_DOCS_PYTHON")
    python = Path(given) if given else ROOT / ".venv-docs" / "bin" / "python"
    if not python.exists():
        made = subprocess.run(
            ["make", ".venv-docs/.installed"], cwd=ROOT, check=False, capture_output=True, text=True
        )
        if made.returncode:
            pytest.skip(f"the site's environment could not be made: {made.stderr[-300:]}")
    return python


@pytest.fixture(scope="session")
def site(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [str(environment), "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder
