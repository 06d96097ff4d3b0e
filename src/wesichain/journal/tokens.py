"""Tokens: what names one question of one run, and cannot be guessed from outside."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any


def token_of(*parts: Any) -> str:
    """The token of a question, the same whenever the run asks it."""
    text = json.dumps(parts, sort_keys=True, default=repr)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
