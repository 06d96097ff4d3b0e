"""Lessons in our own words: how a value is written, which call comes first, what has to be said."""

from .answers import leaves, saying, unsaid
from .examples import applied, contradicts, is_about
from .forms import HINT, Mend, corrections, form_of, mends

__all__ = [
    "HINT",
    "Mend",
    "applied",
    "contradicts",
    "corrections",
    "form_of",
    "is_about",
    "leaves",
    "mends",
    "saying",
    "unsaid",
]
