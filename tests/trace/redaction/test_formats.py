"""The prefixes of tokens: every one is known, whatever comes in front of it, and its words are left alone."""

from __future__ import annotations

import random
import runpy
import string
from typing import Any

import pytest

from tests.conftest import ROOT
from wesichain.trace import Redactor

BARE = Redactor(environ={})
DATA = ROOT / "src" / "wesichain" / "trace" / "redaction" / "betterleaks.txt"
LETTERS = {
    "hex": "0123456789abcdef",
    "letters": string.ascii_letters + string.digits,
    "words": string.ascii_letters + string.digits + "_-",
}


def prefixes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in " ".join(DATA.read_text(encoding="utf-8").splitlines()[2:]).split():
        if word[:-1] in LETTERS:
            found[word[:-1]] = []
        else:
            [*found.values()][-1].append(word)
    return found


@pytest.mark.parametrize("kind", LETTERS)
def test_each_prefix_marks_a_token(kind: str) -> None:
    chance = random.Random(7)
    assert len(prefixes()[kind]) > 25
    for prefix in prefixes()[kind]:
        token = (
            prefix
            + "aB3" * (kind != "hex")
            + "".join(chance.choices(LETTERS[kind], k=30))
            + "4Z9a" * (kind != "hex")
        )
        for text in (token, f"use {token}, please", f'"{token}"', f"a/{token}", f"backup-{token}"):
            assert token[len(prefix) : len(prefix) + 15] not in BARE.text(text), text


@pytest.mark.parametrize(
    "text",
    [
        "key-value-stores-and-more-of-them", "api_live_reload_of_the_server", "re_internationalization", "phc_coordinates",
        "sk-learn-of-the-past", "npm_config_registry_of_ours", "github_pat_", "hf_hub_download_of_models", "access-production-logs",
        "persona_production_guide_is_words", "glc_is_a_prefix", "tss_of_the_year", "pul-out-the-sofa-of-the-room", "dapi_of_the_firm",
    ],
)  # fmt: skip
def test_words_that_begin_like_a_token_stay(text: str) -> None:
    assert BARE.text(text) == text


RULES = r"""
[[rules]]
id = "one-hex"
regex = '''\b(one_[a-f0-9]{40})(?:[\x60'"\s;]|$)'''
[[rules]]
id = "two-alternatives"
regex = '''(?:two|too)-[0-9a-zA-Z_\-]{20}'''
[[rules]]
id = "three-choices"
regex = '''\b(three_[a-z0-9]{30}|drei_[A-Za-z0-9]{30})\b'''
[[rules]]
id = "four-behind-it"
regex = '''(?i)(?:four)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|:)[\x60'"\s=]{0,5}(four-[a-z0-9]{30})(?:$)'''
[[rules]]
id = "five-without-a-prefix"
regex = '''(?i)(?:five)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|:)[\x60'"\s=]{0,5}([a-z0-9]{30})(?:$)'''
[[rules]]
id = "six-client-id"
regex = '''six_[a-z0-9]{30}'''
[[rules]]
id = "seven"
regex = '''SEVEN\.(?i)[a-z0-9]{5}-[a-z0-9]{30}'''
"""


def test_the_prefixes_are_taken_from_the_rules() -> None:
    program: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "secret_rules.py"))
    assert program["prefixes_in"](RULES).splitlines()[2:] == [
        "hex: one_",
        "letters: drei_ four- three_",
        "words: SEVEN. too- two-",
    ]
