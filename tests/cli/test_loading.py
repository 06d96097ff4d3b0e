"""Loading: tools, objects and models, by what a user writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from wesichain.cli.loading import DEFAULT_MODEL, chosen_model, load_tools
from wesichain.errors import ConfigError


def test_the_model_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WESICHAIN_MODEL", raising=False)
    assert chosen_model(None) == DEFAULT_MODEL
    monkeypatch.setenv("WESICHAIN_MODEL", "openai:x")
    assert (chosen_model(None), chosen_model("ollama:y")) == ("openai:x", "ollama:y")
    with pytest.raises(ConfigError, match="--model is empty"):
        chosen_model(" ")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def a(x: int) -> int: return x\ndef _b(): ...\nfrom math import sqrt\n", ["a"]),
        ('from wesichain import tool\n@tool\ndef a() -> int:\n    "A."\n    return 1\ndef b(): ...\n', ["a"]),
        ("def a(): ...\ndef b(): ...\ntools = (b,)\n", ["b"]),
        ("x = 1\n", "has no tools: write a function, or make a list named 'tools'"),
        (None, "there is no file "),
        ("def a(:\n", "tools.py cannot be loaded: SyntaxError"),
        (
            "import math\nmath.nothing\n",
            r"tools.py cannot be loaded: AttributeError: .* \(tools.py, line 2\)",
        ),
    ],
)
def test_the_tools_of_a_file(tmp_path: Path, text: str | None, names: Any) -> None:
    path = tmp_path / "tools.py"
    if text is not None:
        path.write_text(text)
    before = [*sys.path]
    if isinstance(names, str):
        with pytest.raises(ConfigError, match=names):
            load_tools(path)
    else:
        found = load_tools(path)
        assert [getattr(one, "__name__", None) or one.spec.name for one in found] == names
    assert sys.path == before
