"""The small real model, for the tests that need one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT
from wesichain.errors import ConfigError
from wesichain.llm.local import DEFAULT_MODEL, fetch_model, find_model


@pytest.fixture(scope="session")
def smol() -> Path:
    """The file of smollm2-135m; skips, with the reason, where it is neither in the cache nor to be had."""
    return _fetched("smollm2-135m")


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The file of the default model, likewise."""
    return _fetched(DEFAULT_MODEL)


def _fetched(name: str) -> Path:
    folder = Path(os.environ.get("WESICHAIN_MODELS") or ROOT / ".cache" / "models")
    try:
        return fetch_model(find_model(name), folder=folder)
    except ConfigError as error:
        pytest.skip(str(error))
