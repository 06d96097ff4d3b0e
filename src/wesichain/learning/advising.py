"""Advice: the choice of the bullets that a run is shown.

A bullet fits a run if the run offers all its tools and the task is similar to the bullet's example or,
without an example, to its content. An owner's sentence that is bound to a tool and has no example fits every
run that offers the tool. Bullets are withheld at random only if a playbook is opened with `explore` or
`holdback`. The draw is a hash of the run's id and the bullet's id, so that a replay has the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from wesichain.core.internal import HEADING, Advice, Value
from wesichain.errors import ConfigError

from .entities.bullets import Fingerprints, PlaybookBullet, changed_tools, is_learned_warning, is_number
from .entities.conditions import word_in
from .entities.wording import in_case
from .storage.domain import Match

# The lowest similarity at which a bullet fits a task:
FLOOR = 0.4  # of a learned bullet
BOUND = 0.25  # of a lesson about a tool
GENERAL = 0.15  # of an operator's bullet without an example task
_CHARACTERS_A_TOKEN = 4


class Shares(Value):
    """The shares of runs that bullets on trial are shown to and trusted bullets are withheld from.

    `half_life` is the number of runs after which an earlier run counts half.
    """

    explore: float = 1.0
    holdback: float = 0.0
    half_life: float = 50

    def __post_init__(self) -> None:
        for name, share in (("explore", self.explore), ("holdback", self.holdback)):
            if not (is_number(share) and 0 <= share <= 1):
                raise ConfigError(f"{name} is a share of the runs, from 0 to 1; got {share!r}")
        if not (is_number(self.half_life) and self.half_life > 0):
            raise ConfigError(f"half_life is a number of runs above 0; got {self.half_life!r}")


def is_near(match: Match, floor: float) -> bool:
    """Whether a bullet is similar enough to a task.

    A lesson about a tool needs less similarity, since it only fits runs that offer the tool.
    """
    bullet, similarity = match.bullet, match.similarity
    if bullet.is_owned and bullet.tool_sequence and not bullet.example_task:
        return True
    if not bullet.example_task:
        return similarity >= min(floor, GENERAL)
    if bullet.tool_sequence and (bullet.lesson or bullet.is_owned):
        return similarity >= min(floor, BOUND)
    return similarity >= floor


def draw(run_id: str, bullet_id: str) -> float:
    """A random number from 0 to 1, always the same for a run and a bullet."""
    mark = sha256(f"{run_id}\n{bullet_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(mark[:7], "big") / (1 << 56)


def is_drawn(bullet: PlaybookBullet, *, run_id: str, shares: Shares) -> bool:
    """Whether the draw shows the bullet to the run; always for owners' sentences and forced promotions."""
    if bullet.ruling in ("owner", "forced"):
        return True
    lot = draw(run_id, bullet.id)
    return lot >= shares.holdback if bullet.stage == "prod" else lot < shares.explore


def is_applicable(bullet: PlaybookBullet, tools: Fingerprints) -> bool:
    """Whether it has a text, its tools are offered, and their schemas have not changed since it was learned.

    An owner's sentence stays applicable when its tools change.
    """
    return (
        bool(bullet.text)
        and not is_learned_warning(bullet)
        and all(tool in tools for tool in bullet.tool_sequence)
        and (bullet.is_owned or not changed_tools(bullet, tools))
    )


def fitting(bullets: Sequence[PlaybookBullet]) -> list[PlaybookBullet]:
    """Leave out general strategies if a bullet has a condition that a word of this task meets."""
    has_word = any("+" in item.condition for item in bullets)
    return [item for item in bullets if not has_word or "+" in item.condition or not _is_way(item)]


def _is_way(bullet: PlaybookBullet) -> bool:
    """Whether it is a learned strategy, which only says which tools to call."""
    is_learned = bullet.provenance.author != "operator" and bullet.ruling != "forced"
    return is_learned and not bullet.lesson and bullet.section == "Strategies"


def make_advice(
    matches: Sequence[Match],
    first: Sequence[PlaybookBullet] = (),
    *,
    run_id: str,
    tools: Fingerprints,
    k: int,
    tokens: int,
    shares: Shares,
    task: str = "",
) -> Advice:
    """Return the advice for a run with these tools: owners' sentences and at most `k` learned bullets.

    Together they have at most `tokens` tokens. `matches` are sorted, best first. The bullets in `first` are
    shown in any stage. A condition is named by the matching word of the `task`.
    """
    left = tokens * _CHARACTERS_A_TOKEN
    texts: dict[str, str] = {}  # by the id of its bullet
    held: list[str] = []
    ways: dict[str, None] = {}  # the tools to call, in order
    found = fitting([match.bullet for match in matches])
    owned, learned = ([one for one in found if one.is_owned is owned] for owned in (True, False))
    count = 0
    for bullet in (*first, *owned, *learned):
        word = word_in(bullet.condition, task)
        text = in_case(word, bullet.text) if word else bullet.text
        # bullets learned from different kinds of tasks may have the same text
        fits = len(text) <= left and text not in texts.values() and is_applicable(bullet, tools)
        is_new = bullet.id not in (*texts, *held)
        if not (fits and is_new and (bullet.is_owned or count < k)):
            continue
        left -= len(text)
        count += not bullet.is_owned
        if not (bullet in first or is_drawn(bullet, run_id=run_id, shares=shares)):
            held.append(bullet.id)
            continue
        texts[bullet.id] = text
        if bullet.section == "Strategies" and not bullet.lesson:
            ways |= dict.fromkeys(bullet.tool_sequence)
    lines = "\n".join([HEADING, *(f"- {text}" for text in texts.values())]) if texts else ""
    return Advice(lines, tuple(texts), tuple(held), tools=tuple(ways))
