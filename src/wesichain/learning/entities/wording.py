"""Wording: the text of a bullet in a prompt, and masked texts, which are equal for equal intents.

The text of a bullet never quotes a task, an answer or a result. A learned bullet is worded from its section
and the names of its tools; its content is ignored. The words of an operator are shown verbatim, on one line.
A lesson in a model's words was checked by the guard when it was made. A pitfall always reads as a warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from .stages import Section

Lesson: TypeAlias = Literal["", "argument", "format", "order", "stop"]
LESSONS: tuple[Lesson, ...] = ("", "argument", "format", "order", "stop")


def in_order(tools: Sequence[str]) -> str:
    """The names of tools as part of a sentence: `a first, then b, then c`."""
    return f"{tools[0]} first, then {', then '.join(tools[1:])}" if len(tools) > 1 else tools[0]


def sentence_of(section: Section, tools: Sequence[str]) -> str:
    """A learned bullet as a sentence."""
    if section == "Pitfalls":
        way = f"calling {in_order(tools)}" if tools else "answering without calling a tool"
        return f"Warning: {way} has failed."
    return f"Call {in_order(tools)}." if tools else ""


def in_case(word: str, sentence: str) -> str:
    """A sentence for tasks with a word, which comes from the reader's own task."""
    return f"For {word}: {sentence[0].lower()}{sentence[1:]}"


def prompt_text(content: str, *, section: Section, tools: Sequence[str], author: str, lesson: Lesson) -> str:
    """The text of a bullet for a prompt; empty if it has none."""
    if author != "operator" and not lesson:
        return sentence_of(section, tools)
    text = one_line(content)
    if section != "Pitfalls":
        return text
    if tools:
        warned = sentence_of(section, tools).removeprefix("Warning: ")
        return f"Warning: {text.rstrip('.')}. {warned[0].upper()}{warned[1:]}"
    return f"Warning, this has failed before: {text}"


MASK = "#"
_LIMIT = 512  # characters; the intent is in the first sentences, and embedding time grows with length
QUOTED = re.compile(
    r'"[^"\n]{1,200}"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|`+[^`\n]{1,200}`+|(?<!\w)\'[^\'\n]{1,200}\'(?!\w)'
)
_NAME = re.compile(r"`+([A-Za-z_][\w.-]*)`+")  # a tool or a parameter in backticks
_NAME_IN_TEXT = re.compile(r"\w(?:[\w.-]*\w)?")  # a full stop that ends a sentence is no part of a name
_WORD = re.compile(r"\S+")
_EDGES = "([{<.,;:!?)]}>"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


def mask(text: str) -> str:
    """One line of at most 512 characters in which every value is `#`."""
    line = QUOTED.sub(_masked_quotation, one_line(text[: 4 * _LIMIT]))
    return _WORD.sub(_masked_word, line)[:_LIMIT]


def one_line(text: str) -> str:
    """The text without control, bidirectional and zero-width characters, with whitespace collapsed."""
    return " ".join(_CONTROL.sub(" ", text).split())


def names_in(sentence: str) -> set[str]:
    """Return the words of a sentence that may be names of tools or parameters."""
    return set(_NAME_IN_TEXT.findall(sentence))


def _masked_quotation(match: re.Match[str]) -> str:
    name = _NAME.fullmatch(match.group())
    return MASK if name is None else name[1]


def _masked_word(match: re.Match[str]) -> str:
    word = match.group()
    core = word.strip(_EDGES)
    if core.isalpha():
        return word
    is_value = any(map(str.isdigit, core)) or "@" in core or "://" in core
    return word.replace(core, MASK) if is_value else word
