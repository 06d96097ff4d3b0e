"""Token usage in replies of OpenAI's two APIs, and of servers with a compatible one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core import Usage
from wesichain.llm.calls import as_object, whole_number


def usage_of(usage: Mapping[str, Any], *, reading: str, writing: str) -> Usage:
    """The usage in a reply; `reading` and `writing` begin the names that the API gives to its counts."""
    read, written = whole_number(usage.get(f"{reading}_tokens")), whole_number(usage.get(f"{writing}_tokens"))
    of_read = as_object(usage.get(f"{reading}_tokens_details"))
    of_written = as_object(usage.get(f"{writing}_tokens_details"))
    cached = whole_number(of_read.get("cached_tokens")) or whole_number(usage.get("prompt_cache_hit_tokens"))
    stored = whole_number(of_read.get("cache_write_tokens"))
    reasoning = whole_number(of_written.get("reasoning_tokens"))
    cached = min(cached, read)
    return Usage(read, written, cached, min(stored, read - cached), min(reasoning, written))
