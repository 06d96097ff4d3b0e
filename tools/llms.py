"""Write docs/llms.txt: the pages of the site with a sentence on each, for language models.

Run: python tools/llms.py    (a test compares the file with the pages)
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "docs"
FILE = HERE / "llms.txt"
HEAD = """# Wesichain

> Agents that call tools, in Python (3.11+): every call validated, every run limited and recorded, lessons
> drawn from runs. One loop as a typed state machine, typed tools, one policy for faults, budgets over a tree
> of runs, events for everything, exact replay, graphs with checkpoints, durable runs, and a playbook.

Import from the doors that the reference names. An agent: `Agent("PROVIDER:NAME", tools=[function])`, then
`agent.run_sync(task).output`. A run that does not complete raises `RunFailedError` or
`RunInterruptedError`. Code blocks of these pages are run by the project's tests, each on its own.
"""


def sections() -> list[tuple[str, list[str]]]:
    """The navigation of the site: headings, and the pages of each."""
    _, _, tree = (HERE.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    found: list[tuple[str, list[str]]] = []
    for line in tree.splitlines():
        if heading := re.fullmatch(r"  - ([^:]+):", line):
            found.append((heading[1], []))
        elif page := re.fullmatch(r" +- .*?: ([\w./-]+\.md)", line):
            found[-1][1].append(page[1])
    return found


def line_for(page: str) -> str | None:
    """A link to a page with its title and its first sentence; None for a generated page."""
    path = HERE / page
    if not path.exists():
        return None
    title, _, rest = path.read_text(encoding="utf-8").partition("\n")
    prose = re.split(r"\n(?:```|\||#|<|- |\d\. )", rest.strip())[0]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    sentence = re.split(r"(?<=[.:]) (?=[A-Z`*])", text)[0].rstrip(":")
    return f"- [{title.removeprefix('# ')}]({page})" + (f": {sentence}" if sentence else "")


def render() -> str:
    parts = [HEAD]
    for heading, pages in sections():
        lines = [line for page in pages if (line := line_for(page))]
        parts.append(f"## {heading}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
    print(f"wrote {FILE.name}")
