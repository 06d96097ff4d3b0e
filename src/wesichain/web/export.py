"""The static files, and the export of a run as one HTML file that opens without a server.

The script is the concatenation of the viewer's own modules. The content security policy allows only their
hashes; the run is embedded as JSON.
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
    """Return a run as HTML. `prices` are per million tokens, by model: (input, output), or a `Price`."""
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
    """The run as JSON, escaped so that no text can close the script element."""
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
    """A static file, ready to be sent."""

    content: bytes
    media_type: str
    etag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """The static files by name. Other names are not looked up, so that none can be a path elsewhere."""
    found: dict[str, StaticFile] = {}
    for item in files("wesichain.web").joinpath("static").iterdir():
        media_type = _TYPES.get(f".{item.name.rpartition('.')[2]}")
        if media_type is not None:
            content = item.read_bytes()
            found[item.name] = StaticFile(content, media_type, f'"{sha256(content).hexdigest()[:32]}"')
    return found
