"""The small real model, for the tests that need one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT
from wesichain.errors import ConfigError
from wesichain.llm.local import fetch_model, find_model


@pytest.fixture(scope="session")
def smol() -> Path:
    """The file of smollm2-135m; skips, with the reason, where it is neither in the cache nor to be had."""
    folder = Path(os.environ.get("WESICHAIN_MODELS") or ROOT / ".cache" / "models")
    try:
        return fetch_model(find_model("smollm2-135m"), folder=folder)
    except ConfigError as error:
        pytest.skip(str(error))
