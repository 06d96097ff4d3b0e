"""A provider whose extra is not installed: the error names the extra, whichever package is missed first."""

from __future__ import annotations

import subprocess
import sys

import pytest

SDKS = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai", "bedrock": "boto3"}
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys({missing!r}))  # None: not installed
from wesichain import Agent
from wesichain.errors import MissingDependencyError
try:
    Agent("{extra}:some-model")
except MissingDependencyError as error:
    print(error.extra)
"""


@pytest.mark.parametrize("extra", SDKS)
def test_the_error_names_the_extra(extra: str) -> None:
    program = PROGRAM.format(extra=extra, missing=("httpx2", SDKS[extra]))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (extra, "")
