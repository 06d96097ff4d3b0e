"""PLAYBOOK.md: a playbook as a Markdown page that people read, edit, review and keep in git.

A line that a person writes or changes becomes an owner's sentence and is shown verbatim. Deleting a line
retires its lesson; moving it from "On trial" to "Shown" promotes it. The page lists the ids that it was
exported with, so that lessons learned since the export are not retired.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from wesichain.core.internal import Value, field
from wesichain.errors import PlaybookError

from .entities.bullets import PlaybookBullet, bullet_about, is_learned_warning
from .entities.domains import check_domain
from .entities.wording import names_in, one_line

SHOWN, TRIAL = "Shown", "On trial"
_HEAD = """# Playbook

Advice for runs. A line that you write or change is yours and is shown verbatim; a line that you delete is
retired; lines under "On trial" are not shown yet. To apply changes: `wesichain playbook load --help`.
"""
_LINE = re.compile(r"-\s+(?P<text>.*?)(?:\s*<!--\s*(?P<about>.*?)\s*-->)?\s*")
_EXPORTED = re.compile(r"<!-- exported:(?P<ids>[^>]*)-->")
_TOOLS = re.compile(r"\btools:\s*(?P<names>[^;]+)")
_ID = re.compile(r"\bid:\s*(?P<id>[^\s;]+)")


class PageLine(Value):
    """One line of a page: its text, the bullet that it was exported from, its tools and its section."""

    text: str
    id: str = ""
    tools: tuple[str, ...] = ()
    is_shown: bool = True


class PageChange(Value):
    """The changes that an edited page makes to one domain of a playbook."""

    domain: str
    added: tuple[PlaybookBullet, ...] = ()
    retired: tuple[str, ...] = ()
    promoted: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])  # of retired and promoted bullets

    def __bool__(self) -> bool:
        return bool(self.added or self.retired or self.promoted)

    def lines(self) -> Iterator[str]:
        """Yield one line of text for each change."""
        for name in self.retired:
            yield f"{self.domain}: retire {name}: {self.texts.get(name, '')}"
        for name in self.promoted:
            yield f"{self.domain}: show {name}: {self.texts.get(name, '')}"
        for bullet in self.added:
            yield f"{self.domain}: add: {bullet.content}"


def write_page(domains: Mapping[str, Sequence[PlaybookBullet]]) -> str:
    """Return the page of these domains: bullets that are shown, and lessons on trial."""
    parts = [_HEAD]
    for domain, bullets in domains.items():
        listed = [bullet for bullet in bullets if is_listed(bullet)]
        parts.append(f"## {domain}\n")
        for heading, is_shown in ((SHOWN, True), (TRIAL, False)):
            lines = [_line(bullet) for bullet in listed if bullet.is_visible is is_shown]
            parts.append(f"### {heading}\n\n" + "".join(f"{line}\n" for line in lines))
        parts.append(f"<!-- exported: {' '.join(bullet.id for bullet in listed)} -->\n")
    return "\n".join(parts)


def is_listed(bullet: PlaybookBullet) -> bool:
    """Whether a bullet has a line on the page: it is shown, or it is a lesson on trial."""
    is_on_trial = bool(bullet.lesson) and bullet.stage == "shadow"
    return bool(bullet.text) and not is_learned_warning(bullet) and (bullet.is_visible or is_on_trial)


def read_page(text: str) -> dict[str, tuple[list[PageLine], list[str]]]:
    """Return the lines of each domain of a page, and the ids that it was exported with."""
    found: dict[str, tuple[list[PageLine], list[str]]] = {}
    domain, is_shown = "", True
    for number, row in enumerate(text.splitlines(), 1):
        if row.startswith("## "):
            domain = check_domain(row[3:].strip())
            found.setdefault(domain, ([], []))
            is_shown = True
        elif row.startswith("### "):
            is_shown = row[4:].strip().casefold() != TRIAL.casefold()
        elif exported := _EXPORTED.match(row):
            if domain:
                found[domain][1].extend(exported["ids"].split())
        elif line := _LINE.fullmatch(row.strip()):
            if not domain:
                raise PlaybookError(f"line {number} is not in a domain: write '## general' above it")
            if content := one_line(line["text"]):
                found[domain][0].append(_read_line(content, line["about"] or "", is_shown=is_shown))
    if not found:
        raise PlaybookError("the page has no domain: write '## general' above its lines")
    return found


def changes(
    domain: str, lines: Sequence[PageLine], exported: Sequence[str], bullets: Sequence[PlaybookBullet]
) -> PageChange:
    """Return the changes that a page makes to a domain with these bullets."""
    known = {bullet.id: bullet for bullet in bullets}
    tools = {tool for bullet in bullets for tool in bullet.tool_sequence}
    kept = {line.id for line in lines if line.id}
    retired = [name for name in dict.fromkeys(exported) if name in known and name not in kept]
    promoted: list[str] = []
    added: list[PlaybookBullet] = []
    for line in lines:
        bullet = known.get(line.id)
        if bullet is not None and _line_text(bullet) == line.text:
            if line.is_shown and not bullet.is_visible:
                promoted.append(bullet.id)
            continue
        if bullet is not None:
            retired.append(bullet.id)
        written = _written(line, bullet, tools)
        if written.id not in known:
            added.append(written)
        elif not known[written.id].is_visible:
            promoted.append(written.id)
    retired = [name for name in dict.fromkeys(retired) if known[name].stage != "quarantined"]
    texts = {name: _line_text(known[name]) for name in (*retired, *promoted)}
    return PageChange(domain, tuple(added), tuple(retired), tuple(promoted), texts)


def _line(bullet: PlaybookBullet) -> str:
    about = [f"id: {bullet.id}"]
    about += [f"tools: {', '.join(bullet.tool_sequence)}"] if bullet.tool_sequence else []
    about.append(f"by {'owner' if bullet.is_owned else bullet.provenance.author}")
    about.append(f"helped {bullet.helpful_count}, failed {bullet.harmful_count}")
    return f"- {_line_text(bullet)} <!-- {'; '.join(about)} -->"


def _line_text(bullet: PlaybookBullet) -> str:
    """The text of a line: an operator's own words, else the text that is shown to runs."""
    words = bullet.content if bullet.provenance.author == "operator" else bullet.text
    return one_line(words).replace("<!--", "").replace("-->", "").strip()


def _read_line(text: str, about: str, *, is_shown: bool) -> PageLine:
    named, tools = _ID.search(about), _TOOLS.search(about)
    names = tuple(name.strip() for name in tools["names"].split(",")) if tools else ()
    return PageLine(text, named["id"] if named else "", names, is_shown)


def _written(line: PageLine, known: PlaybookBullet | None, tools: set[str]) -> PlaybookBullet:
    """The bullet of a line that was written or changed, bound to its earlier tools or to those it names."""
    bound = line.tools or (known.tool_sequence if known else tuple(sorted(names_in(line.text) & tools)))
    return bullet_about(
        bound,
        line.text,
        ruling="owner",
        lesson=known.lesson if known else "argument",
        section=known.section if known else "Strategies",
        example_task=known.example_task if known else "",
    )
