"""Ranking: which of the bullets about a task come first."""

from __future__ import annotations

from collections.abc import Sequence

from .entities import is_followed
from .storage import Match

_WEIGHT = 0.1  # of all else beside the similarity


def rank(match: Match, others: Sequence[Match]) -> tuple[float, int]:
    """Similarity, then evidence; detours, and what not to do, behind what to do. Of equals, short first."""
    bullet = match.bullet
    is_pitfall = bullet.section == "Pitfalls"
    for_it, against = bullet.helpful_count, bullet.harmful_count
    if is_pitfall:
        for_it, against = against, for_it
    score = match.similarity + _WEIGHT * for_it / max(1, for_it + against)
    if is_pitfall or _is_detour(match, others):
        score -= _WEIGHT
    return round(score, 3), -bullet.tool_count


def _is_detour(match: Match, others: Sequence[Match]) -> bool:
    """Whether a shorter way, which is a part of this one, is known to do for the same kind of task."""
    bullet, near = match.bullet, match.similarity
    if bullet.section != "Strategies" or bullet.tool_count < 2:
        return False
    return any(
        is_followed(other.bullet.tool_sequence, bullet.tool_sequence)
        for other in others
        if -0.01 < other.similarity - near < 0.01  # first, since few are left then
        and 0 < other.bullet.tool_count < bullet.tool_count
        and other.domain == match.domain
        and other.bullet.section == "Strategies"
    )
