"""Write src/wesichain/trace/redaction/betterleaks.txt: how the tokens begin that Betterleaks knows.

Run: python tools/secret_rules.py betterleaks.toml    (config/betterleaks.toml of the release below)

A token begins with its provider's prefix, and continues with hexadecimal digits, with letters and digits, or
with words (which also have `_`, `-` and the signs of base64). Only this is taken from the rules. Betterleaks
also checks lengths, which providers change, and finds tokens without a prefix behind their provider's name.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from textwrap import fill

RELEASE = "1.7.0"
TARGET = Path(__file__).resolve().parents[1] / "src/wesichain/trace/redaction/betterleaks.txt"
HEAD = f"""\
# How tokens begin, by the letters that follow. From the rules of Betterleaks {RELEASE}
# (https://github.com/betterleaks/betterleaks, MIT: betterleaks.LICENSE) by tools/secret_rules.py.
"""
# Identifiers, keys for browsers, addresses; prefixes that are ordinary words; what has rules of our own.
LEFT_OUT = re.compile(
    r"-id\b|public|-pub-|-name|host|webhook|authress|harness|gocardless|klaviyo|clickup|private-key|jwt|scalr"
    r"|fullstory|astra"
)
LITERAL = r"(?:[\w~:@!<>/-]|\\[.\-/])"
CHOICE = rf"\(\?:{LITERAL}+(?:\|{LITERAL}+)*\)"
TOKEN = re.compile(
    rf"(?:\(\?i\)|\(\?:|\\b|\((?!\?))*((?:{CHOICE}|{LITERAL}(?![?*+{{]))+)"  # the prefix
    r"(?:\(\?i\)|\(\?i:|\()?(\[\[:alnum:\]\]|\[[^\]]+\]|\\[wd])(?:\{(\d+)|\+)"  # what follows, how many
)
NAMED = re.compile(r"\{0,5\}\(")  # what stands before a token behind the name of its provider
FEW = 12


def prefixes_in(rules: str) -> str:
    """The file, from the text of betterleaks.toml."""
    found: dict[str, set[str]] = {"hex": set(), "letters": set(), "words": set()}
    for rule in tomllib.loads(rules)["rules"]:
        if "skipReport" not in rule and not LEFT_OUT.search(rule["id"]):
            for prefix, letters in beginnings(rule.get("regex", "")):
                found[letters].add(prefix)
    found["letters"] -= found["words"]
    found["hex"] -= found["words"] | found["letters"]
    lines = (f"{letters}: {' '.join(sorted(prefixes))}" for letters, prefixes in found.items())
    wrapped = (fill(line, 110, break_on_hyphens=False, break_long_words=False) for line in lines)
    return HEAD + "\n".join(wrapped) + "\n"


def beginnings(whole: str) -> Iterator[tuple[str, str]]:
    """Each prefix in a rule, and which letters follow it."""
    regex = NAMED.split(whole, maxsplit=1)[-1]
    fewest = 4 if regex != whole else 3  # without its provider's name, a short prefix says less
    for token in (regex, *re.split(r"\|(?:\\b)?\(?(?=[A-Za-z]\w+[-_.\\]|[A-Z]+\d)", regex)):
        match = TOKEN.match(token)
        if match is None:
            continue
        parts = [
            part[3:-1].split("|") if part.startswith("(?:") else [part]
            for part in re.findall(rf"{CHOICE}|{LITERAL}", match[1])
        ]
        for choice in product(*parts):
            prefix = re.sub(r"\\(.)", r"\1", "".join(choice))
            if len(prefix) >= max(fewest, 4 if prefix.isalnum() else 3):
                yield prefix, letters_of(match[2].replace("[:alnum:]", "a-z"), int(match[3] or 0))


def letters_of(letters: str, count: int) -> str:
    allowed = re.compile(letters, re.IGNORECASE)
    if count < FEW or any(map(allowed.fullmatch, "-_+")):
        return "words"
    return "letters" if allowed.fullmatch("z") else "hex"


if __name__ == "__main__":
    TARGET.write_text(prefixes_in(Path(sys.argv[1]).read_text(encoding="utf-8")), encoding="utf-8")
