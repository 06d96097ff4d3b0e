"""The files of the pages; and a run as one of them: opens anywhere, without a server, with its own rules.

The scripts are the viewer's own modules put behind each other. The page's policy names their hashes and
allows nothing else; the run is data, from which no element can be made but by those scripts.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from wesichain.core import to_json
from wesichain.core.internal import Prices, Value
from wesichain.trace import Recording

from .price_rows import price_rows

_MODULES = ("dom.js", "markdown.js", "waterfall.js", "timeline.js", "graph.js", "exported.js")
_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) )", re.MULTILINE)


def export_html(recording: Recording, *, prices: Prices | None = None) -> str:
    """The whole run as a page. `prices` are per million tokens, by model: (input, output), or a `Price`."""
    style, *modules = (static_files()[name].content.decode() for name in ("style.css", *_MODULES))
    script = "".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:; "
        f"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    title = escape(recording.user_input[:80] or recording.run_id[:80])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Wesichain</title>
<style>{style}</style>
</head>
<body>
<main id="main"></main>
<script type="application/json" id="data">{_data(recording, prices)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _data(recording: Recording, prices: Prices | None) -> str:
    """JSON in which no text can end the element that holds it."""
    data = {
        "run": {
            "run_id": recording.run_id,
            "user_input": recording.user_input,
            "model": recording.model,
            "status": recording.status,
            "started_at": recording.started_at,
        },
        "events": recording.events,
        "prices": price_rows(prices or {}),
        "problems": recording.problems,
    }
    return to_json(data).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class StaticFile(Value):
    """One file, ready to be sent."""

    content: bytes
    media_type: str
    etag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """The files by their names: only those that are there have one, so no name can be a way elsewhere."""
    found: dict[str, StaticFile] = {}
    for item in files("wesichain.web").joinpath("static").iterdir():
        media_type = _TYPES.get(f".{item.name.rpartition('.')[2]}")
        if media_type is not None:
            content = item.read_bytes()
            found[item.name] = StaticFile(content, media_type, f'"{sha256(content).hexdigest()[:32]}"')
    return found
