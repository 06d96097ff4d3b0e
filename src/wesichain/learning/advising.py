"""Advising: which bullets a run is shown, which are held back from it, and how that is drawn.

A bullet on trial is shown to a share of the runs that would retrieve it, a trusted one is held back from a
few: only so can runs with it and without be compared. The draw is a hash of the run's id and the bullet's, so
that a replay or a resume of the run agrees with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256

from wesichain.core import HEADING, Advice, dataclass
from wesichain.errors import ConfigError

from .entities import (
    Fingerprints,
    PlaybookBullet,
    changed_tools,
    in_case,
    is_for_others,
    is_number,
    marks_of,
    words_in,
)
from .lessons import applied, contradicts, is_about
from .storage import Match

FLOOR = 0.4  # similarity below which a learned bullet is about something else
ALIKE = 0.6  # below which the bare names of tools that did for one task are nothing to another
GENERAL = 0.15  # the same for what an operator wrote without an example of a task
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Shares:
    """What a bullet on trial is shown to, and a trusted one is held back from: shares of the runs.

    `half_life`: after so many runs one counts half.
    """

    explore: float = 0.5
    holdback: float = 0.1
    half_life: float = 50

    def __post_init__(self) -> None:
        for name, share in (("explore", self.explore), ("holdback", self.holdback)):
            if not (is_number(share) and 0 <= share <= 1):
                raise ConfigError(f"{name} is a share of the runs, from 0 to 1; got {share!r}")
        if not (is_number(self.half_life) and self.half_life > 0):
            raise ConfigError(f"half_life is a number of runs above 0; got {self.half_life!r}")


def is_near(match: Match, floor: float) -> bool:
    """Whether a bullet is about a task; one without an example is compared by its own words.

    A way that is known for no word of the task has to be one for tasks of this very kind.
    """
    bullet = match.bullet
    if not bullet.example_task:
        return match.similarity >= min(floor, GENERAL)
    is_bare = _is_way(bullet) and "+" not in bullet.condition
    return match.similarity >= (max(floor, ALIKE) if is_bare and floor > 0 else floor)


def draw(run_id: str, bullet_id: str) -> float:
    """A number from 0 to 1 that is always the same for a run and a bullet, and says nothing else."""
    mark = sha256(f"{run_id}\n{bullet_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(mark[:7], "big") / (1 << 56)


def is_drawn(bullet: PlaybookBullet, *, run_id: str, shares: Shares) -> bool:
    """Whether a run is shown the bullet. What an operator insists on always is."""
    if bullet.ruling == "forced":
        return True
    lot = draw(run_id, bullet.id)
    return lot >= shares.holdback if bullet.stage == "prod" else lot < shares.explore


def may_be_shown(bullet: PlaybookBullet, tools: Fingerprints) -> bool:
    """Whether there is something to say, its tools are here as they were, and, if it warns, it has helped.

    Warnings cost more than they give: one is shown where an operator wrote it or a comparison speaks for it.
    """
    warns = bullet.section == "Pitfalls" and bullet.provenance.author != "operator"
    return (
        bool(bullet.text)
        and all(tool in tools for tool in bullet.tool_sequence)
        and not changed_tools(bullet, tools)
        and not (warns and not bullet.tally.compared)
    )


def fitting(bullets: Sequence[PlaybookBullet], task: str) -> list[PlaybookBullet]:
    """Those that say something about this very task.

    A way that is known for a word of it says more than those that are known for none; of these, one is left
    out whose tasks were less like it than those that went another way, or whose tool a lesson speaks of. So
    is a lesson, where those that did not call its tool were more like it; and a rule about how a value is
    written, where the task says no such value and what is known of it is about other tools.
    """
    marks = marks_of(task)
    bullets = [item for item in bullets if not (item.lesson and is_for_others(item.cases, marks))]
    lessons = [bullet for bullet in bullets if bullet.lesson]
    spoken = {tool for bullet in lessons for tool in bullet.tool_sequence if tool in bullet.text}
    has_word = any("+" in bullet.condition for bullet in bullets)
    kept = [
        bullet
        for bullet in bullets
        if "+" in bullet.condition
        or not _is_way(bullet)
        or not (has_word or spoken.issuperset(bullet.tool_sequence) or is_for_others(bullet.cases, marks))
    ]
    about = {bullet.id: is_about(bullet.text, task) for bullet in kept if _is_learned(bullet)}
    sure = {tool for item in kept if _is_way(item) or about.get(item.id) for tool in item.tool_sequence}
    return [
        bullet
        for bullet in kept
        if about.get(bullet.id) is not False or not sure or not sure.isdisjoint(bullet.tool_sequence)
    ]


def _is_learned(bullet: PlaybookBullet) -> bool:
    return bullet.provenance.author != "operator" and bullet.ruling != "forced"


def _is_way(bullet: PlaybookBullet) -> bool:
    """Whether it was learned, and says nothing but which tools to call."""
    return _is_learned(bullet) and not bullet.lesson and bullet.section == "Strategies"


def is_outdone(
    bullet: PlaybookBullet, others: Sequence[PlaybookBullet], *, first: Sequence[PlaybookBullet] = ()
) -> bool:
    """Whether another rule says something else of the same value, and has the better record or is `first`."""
    return bool(bullet.lesson) and any(
        other in first or _record(other) > _record(bullet)
        for other in (*first, *others)
        if contradicts(other.text, bullet.text)
    )


def _record(bullet: PlaybookBullet) -> tuple[bool, float, float, str]:
    """How well runs went that were told it, then how many taught it; an operator's word stands above."""
    tally = bullet.tally
    rate = (1 + tally.shown_successes) / (2 + tally.shown_runs)
    return not _is_learned(bullet), rate, bullet.helpful_count - tally.lost_helpful, bullet.id


@dataclass(frozen=True, slots=True)
class AdviceOffer:
    """What a run can be told: how many bullets in how many tokens, about which tools.

    Without `shares` nothing is drawn. `task` is what the run was asked: a condition is told in its own words.
    """

    run_id: str
    tools: Fingerprints
    k: int
    tokens: int
    shares: Shares | None
    task: str = ""

    def advice(
        self, matches: Sequence[Match], *, first: Sequence[PlaybookBullet] = (), without: Collection[str] = ()
    ) -> Advice:
        """The advice that is made of matches, best first. `first` are shown whatever their stage."""
        left = self.tokens * _CHARACTERS_A_TOKEN
        told: dict[str, str] = {}  # by the id of its bullet
        held: list[str] = []
        ways: dict[str, None] = {}  # the tools to call, in order
        found = fitting([match.bullet for match in matches], self.task)
        usable = [item for item in found if item.id not in without and may_be_shown(item, self.tools)]
        agreed = [item for item in found if not is_outdone(item, usable, first=first)]
        for bullet in (*first, *agreed):
            text = self._told(bullet)  # two bullets may say one thing: learned at two kinds of tasks
            fits = len(text) <= left and text not in told.values() and may_be_shown(bullet, self.tools)
            known = (*told, *held)
            if fits and bullet.id not in known and bullet.id not in without and len(known) < self.k:
                left -= len(text)
                if bullet in first or self._is_drawn(bullet):
                    told[bullet.id] = text
                    if bullet.section == "Strategies" and not bullet.lesson:
                        ways |= dict.fromkeys(bullet.tool_sequence)
                else:
                    held.append(bullet.id)
        lines = "\n".join([HEADING, *(f"- {text}" for text in told.values())]) if told else ""
        return Advice(lines, tuple(told), tuple(held), tools=tuple(ways))

    def _told(self, bullet: PlaybookBullet) -> str:
        """The bullet's text in the words of this task: the one that makes it fit, and its own values."""
        is_rule = bullet.lesson and bullet.provenance.author != "operator"
        text = applied(bullet.text, self.task) if is_rule else bullet.text
        words = words_in(bullet.condition, self.task)
        return in_case(words, text) if words else text

    def _is_drawn(self, bullet: PlaybookBullet) -> bool:
        return self.shares is None or is_drawn(bullet, run_id=self.run_id, shares=self.shares)
