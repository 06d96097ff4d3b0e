"""llama.cpp's grammars, read by other means: which texts one matches, and texts that it allows."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

Node = tuple[Any, ...]
_TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d+,?\d*\}|[()|*+?]|[A-Za-z][A-Za-z0-9-]*')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")


@dataclass
class Gbnf:
    """A grammar, compiled."""

    rules: dict[str, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Gbnf:
        grammar = cls()
        for line in text.split("\n"):
            name, body = line.split(" ::= ", 1)
            tokens = [token for token in _tokens(body) if not token.isspace()]
            node, rest = _alternatives(tokens)
            assert not rest, rest
            grammar.rules[name] = node
        return grammar

    def matches(self, text: str) -> bool:
        return len(text) in self._ends(self.rules["root"], text, 0, {})

    def _ends(self, node: Node, text: str, at: int, known: dict[Any, set[int]]) -> set[int]:
        key = (id(node), at)
        if key not in known:
            known[key] = set()
            known[key] = self._find(node, text, at, known)
        return known[key]

    def _find(self, node: Node, text: str, at: int, known: dict[Any, set[int]]) -> set[int]:
        match node:
            case ("text", word):
                return {at + len(word)} if text.startswith(word, at) else set()
            case ("class", pattern):
                return {at + 1} if at < len(text) and pattern.fullmatch(text[at]) else set()
            case ("rule", name):
                return self._ends(self.rules[name], text, at, known)
            case ("either", choices):
                return set().union(*(self._ends(choice, text, at, known) for choice in choices))
            case ("all", items):
                ends = {at}
                for item in items:
                    ends = set().union(*(self._ends(item, text, end, known) for end in ends))
                return ends
            case ("times", item, least, most):
                ends, found, count = {at}, {at} if least == 0 else set[int](), 0
                while ends and (most is None or count < most):
                    ends = set().union(*(self._ends(item, text, end, known) for end in ends)) - found
                    count += 1
                    if count >= least:
                        found |= ends
                return found
            case _:
                raise AssertionError(node)

    def sample(self, chance: random.Random) -> str:
        """A text that the grammar allows, short rather than long."""
        return self._make(self.rules["root"], chance, 0)

    def _make(self, node: Node, chance: random.Random, depth: int) -> str:
        match node:
            case ("text", word):
                return str(word)
            case ("class", pattern):
                return chance.choice([sign for sign in _SIGNS if pattern.fullmatch(sign)])
            case ("rule", name):
                return self._make(self.rules[name], chance, depth + 1)
            case ("either", choices):
                return self._make(choices[-1] if depth > 12 else chance.choice(choices), chance, depth + 1)
            case ("all", items):
                return "".join(self._make(item, chance, depth + 1) for item in items)
            case ("times", item, least, most):
                extra = 0 if depth > 12 else chance.choice([0, 0, 1, 2])
                count = least + extra if most is None else min(least + extra, most)
                return "".join(self._make(item, chance, depth + 1) for _ in range(count))
            case _:
                raise AssertionError(node)


_SIGNS = [chr(code) for code in range(32, 127)] + ["é", "漢", "🙂"]


def _tokens(body: str) -> list[str]:
    tokens, at = [], 0
    while at < len(body):
        found = _TOKEN.match(body, at)
        assert found, body[at : at + 40]
        tokens.append(found.group())
        at = found.end()
    return tokens


def _alternatives(tokens: list[str]) -> tuple[Node, list[str]]:
    choices: list[Node] = []
    while True:
        items, tokens = _sequence(tokens)
        choices.append(("all", items))
        if not tokens or tokens[0] != "|":
            return (choices[0] if len(choices) == 1 else ("either", choices)), tokens
        tokens = tokens[1:]


def _sequence(tokens: list[str]) -> tuple[list[Node], list[str]]:
    items: list[Node] = []
    while tokens and tokens[0] not in "|)":
        head, *tokens = tokens
        node: Node
        if head == "(":
            node, tokens = _alternatives(tokens)
            assert tokens[0] == ")"
            tokens = tokens[1:]
        elif head[0] == '"':
            node = ("text", _plain(head[1:-1]))
        elif head[0] == "[":
            node = ("class", re.compile(head, re.DOTALL))
        else:
            node = ("rule", head)
        if tokens and (tokens[0] in "*+?" or tokens[0][0] == "{"):
            node = ("times", node, *_count(tokens[0]))
            tokens = tokens[1:]
        items.append(node)
    return items, tokens


def _count(token: str) -> tuple[int, int | None]:
    if token in "*+?":
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token]
    least, comma, most = token[1:-1].partition(",")
    return int(least), int(most) if most else None if comma else int(least)


def _plain(text: str) -> str:
    def sign(found: re.Match[str]) -> str:
        code = found.group(1)
        return chr(int(code[1:], 16)) if code[0] == "x" and len(code) == 3 else {"n": "\n"}.get(code, code)

    return _ESCAPE.sub(sign, text)
