"""The fingerprint of a request: its model, tools, settings and form of the answer.

The messages of a request follow from the log, and are compared as they are.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from wesichain.core import LlmRequest, to_json

_MOST = 64
_known: dict[tuple[Any, ...], tuple[tuple[Any, ...], str]] = {}


def fingerprint(request: LlmRequest) -> str:
    """The fingerprint of a request, without its messages."""
    # Most requests of a run have the same objects here; the tuple keeps them alive, so that their ids stay.
    kept = (request.tools, request.output_schema, request.settings)
    key = (request.model, *map(id, kept))
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        text = to_json([request.model, list(request.tools), request.output_schema, request.settings])
        found = _known[key] = kept, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return found[1]
