"""Pages: the Markdown of the project, its headings, links and blocks of Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

DOCS = ROOT / "docs"
TOOLS = ROOT / "tools"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

# A title may say that a block is not run, or where; every other block of Python runs alone in the tests.
NOT_RUN = "not run here"
SLOW = "run in the slow tests"

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_TITLE = re.compile(r'^python(?: title="(?P<title>[^"]+)")?$')
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)")
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


@dataclass(frozen=True)
class Block:
    """One block of Python in a page."""

    page: Path
    line: int
    code: str
    title: str

    @property
    def id(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def _parts(page: Path) -> tuple[tuple[str, ...], tuple[tuple[int, str, str, str], ...]]:
    """The lines outside of fences, and the fences: line, indent, language, code."""
    prose: list[str] = []
    fences: list[tuple[int, str, str, str]] = []
    start, indent, mark, language = 0, "", "", ""
    code: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if mark:
            if found and found[2].startswith(mark) and not found[3].strip():
                fences.append((start, indent, language, "\n".join(code) + "\n"))
                mark = ""
            else:
                code.append(line.removeprefix(indent))
        elif found:
            start, indent, mark, language = number, found[1], found[2], found[3].strip()
            code = []
        else:
            prose.append(line)
    assert not mark, f"{name_of(page)}: the block that begins in line {start} has no end"
    return tuple(prose), tuple(fences)


def blocks_of(page: Path) -> list[Block]:
    """The blocks of Python of a page; one whose fence says anything but a title is an error."""
    found: list[Block] = []
    for line, _, language, code in _parts(page)[1]:
        if not language.startswith(("py", "Py")):
            continue
        says = _TITLE.match(language)
        assert says, f'{name_of(page)}:{line}: write ```python, or ```python title="..."'
        found.append(Block(page, line, code, says["title"] or ""))
    return found


def words_in_code(page: Path) -> frozenset[str]:
    """The words of a page that stand in a code span or a block of code."""
    prose, fences = _parts(page)
    spans = re.findall(r"`([^`\n]+)`", "\n".join(prose))
    return frozenset(re.findall(r"\w+", "\n".join([*spans, *(code for _, _, _, code in fences)])))


def links_of(page: Path) -> list[str]:
    """The targets of the links of a page, code left aside."""
    text = re.sub(r"`[^`\n]*`", "``", "\n".join(_parts(page)[0]))
    return _LINK.findall(text)


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """The anchors of a page: its headings as the site and the usual forges name them, and marks by hand."""
    found: set[str] = set()
    for line in _parts(page)[0]:
        found.update(_ANCHOR.findall(line))
        if re.match(r"#{1,6} ", line):
            name = slug = slug_of(line.lstrip("#").strip())
            count = 1
            while name in found:
                name = f"{slug}_{count}"
                count += 1
            found.add(name)
    return frozenset(found)


def slug_of(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
