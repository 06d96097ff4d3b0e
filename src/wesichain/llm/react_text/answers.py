"""Answers: where the text of an answer ends."""

from __future__ import annotations

import re
from functools import cache

from wesichain.llm.families import FAMILIES, Family

_TURNS = re.compile(
    r"(?:<s>|<bos>)?+(?:<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|\[INST\]|<\|(?:user|system|assistant|start)\|>"
    r"|<\|START_OF_TURN_TOKEN\|>|<[|\uff5c](?:User|Assistant)[|\uff5c]>)"
)


@cache
def end_tokens(family: Family) -> re.Pattern[str]:
    """The tokens that end a reply: those of the family's template, or those of all templates."""
    ends = family.ends or {
        "<|end|>",
        "<|eos|>",
        "<eos>",
        *(end for row in FAMILIES.values() for end in row.ends),
    }
    return re.compile("|".join(sorted(map(re.escape, ends))) or "(?!)")


def answer_in(text: str, family: Family) -> str:
    """An answer without what a server left behind it.

    It ends at an end token of the family's template. Without a known template, a token ends it only at its
    very end, or
    directly before the next turn of a template.
    """
    for token in end_tokens(family).finditer(text):
        behind = text[token.end() :].lstrip()
        if (
            family.ends
            or not behind
            or _TURNS.match(behind)
            or not end_tokens(family).sub("", behind).strip()
        ):
            text = text[: token.start()]
            break
    text = text.strip()
    if text.endswith("```") and text.count("```") % 2:  # the end of a code block around the reply
        text = text.rstrip("`").rstrip()
    return text
