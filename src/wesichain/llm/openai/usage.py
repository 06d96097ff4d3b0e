"""Token usage in replies of OpenAI's two APIs, and of servers with a compatible one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core import Usage
from wesichain.llm.calls import as_object, token_count


def usage_of(usage: Mapping[str, Any], *, reading: str, writing: str) -> Usage:
    """The usage in a reply; `reading` and `writing` begin the names that the API gives to its counts."""
    read, written = token_count(usage.get(f"{reading}_tokens")), token_count(usage.get(f"{writing}_tokens"))
    of_read = as_object(usage.get(f"{reading}_tokens_details"))
    of_written = as_object(usage.get(f"{writing}_tokens_details"))
    cached = token_count(of_read.get("cached_tokens")) or token_count(usage.get("prompt_cache_hit_tokens"))
    stored = token_count(of_read.get("cache_write_tokens"))
    reasoning = token_count(of_written.get("reasoning_tokens"))
    cached = min(cached, read)
    return Usage(read, written, cached, min(stored, read - cached), min(reasoning, written))
