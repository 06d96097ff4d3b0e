"""The small real models, and one layer of the smallest, for the tests that need one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.llm.local.shallow import write_shallow
from wesichain.errors import ConfigError
from wesichain.llm.local import DEFAULT_MODEL, fetch_model, find_model


@pytest.fixture(scope="session")
def smol() -> Path:
    """The file of smollm2-135m; skips, with the reason, where it is neither in the cache nor to be had."""
    return _fetched("smollm2-135m")


@pytest.fixture(scope="session")
def shallow(smol: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a model that is loaded and asked as smollm2-135m is, and much faster; its words mean nothing."""
    path = tmp_path_factory.mktemp("shallow") / "one-layer.gguf"
    write_shallow(smol, path)
    return path


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The file of the default model; skips, with the reason, where it is neither in the cache nor to be had."""
    return _fetched(DEFAULT_MODEL)


def _fetched(name: str) -> Path:
    folder = Path(os.environ.get("WESICHAIN_MODELS") or ROOT / ".cache" / "models")
    try:
        return fetch_model(find_model(name), folder=folder)
    except ConfigError as error:
        pytest.skip(str(error))
