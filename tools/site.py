"""MkDocs hooks: pages generated from the repository's root and the examples, and search keywords."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
WORDS: dict[str, list[str]] = tomllib.loads((ROOT / "docs" / "search.toml").read_text(encoding="utf-8"))
FROM_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
# Links out of docs/, and the pages of the site for them.
ELSEWHERE = {
    **FROM_ROOT,
    "README.md": "README.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "contributing.md",
    "docs": "README.md",
    "docs/decisions": "decisions/0001-values.md",
    "examples": "examples.md",
}
LINK = re.compile(r"(\]\()([^)\s#:]+)([^)]*\))")


def on_files(files: Any, config: Any) -> Any:
    for source, page in FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, ELSEWHERE["examples"], content=examples()))
    return files


def examples() -> str:
    """All examples on one page."""
    parts = [
        "# Examples",
        "",
        "Programs of under 60 lines, in `examples/` of the repository; the tests run them.",
    ]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts += ["", f"## {path.stem}", "", "```python", path.read_text(encoding="utf-8").rstrip(), "```"]
    return "\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Set the search keywords of a page, and replace links out of docs/ by links to pages of the site."""
    source: str = page.file.src_uri
    page.meta["tags"] = WORDS.get(source, [])  # the search ranks tags above titles
    is_from_root = source in FROM_ROOT.values()
    here = "" if is_from_root else posixpath.dirname(f"docs/{source}")

    def replaced(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, found[2]))
        there = ELSEWHERE.get(target)
        if there is None and is_from_root and target.startswith("docs/"):
            there = target.removeprefix("docs/")
        if there is None:
            return found[0]
        return found[1] + posixpath.relpath(there, posixpath.dirname(source) or ".") + found[3]

    return LINK.sub(replaced, markdown)
