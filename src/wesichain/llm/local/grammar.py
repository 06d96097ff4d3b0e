"""Grammars for llama.cpp (GBNF) from JSON schemas: the allowed forms of a model's reply.

The grammar allows only one way to write JSON, `{"a": 1, "b": [2, 3]}`, so that no tokens are spent on
indentation. Keywords that do not shape a value (`pattern`, `not`, limits of large numbers) are ignored: the
grammar then allows a little more than the schema, and the runtime checks the value.

If values are given, a parameter that is an id (`"format": "id"`) can only be one of them. A tool that
requires an id for which there is no value cannot be called yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from wesichain.core import ToolSpec
from wesichain.core.internal import dump_json, is_array, is_object
from wesichain.llm.calls import spaced_json

from .grounding import GroundedValues

_COMMON = {
    "string": r'"\"" char* "\""',
    "char": r'[^"\\\x00-\x1f\x7f] | "\\" ["\\/bfnrt]',
    "integer": '"-"? ("0" | [1-9] [0-9]{0,14})',
    "number": 'integer ("." [0-9]{1,15})? ("e" "-"? [0-9]{1,2})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "object": r'"{" (string ": " value (", " string ": " value)*)? "}"',
    "array": '"[" (value (", " value)*)? "]"',
    "value": "object | array | string | number | boolean | null",
    "date": '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])',
    "time": '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9]',
}
_FORMATS = {
    "date": r'"\"" date "\""',
    "time": r'"\"" time "Z" "\""',
    "date-time": r'"\"" date "T" time "Z" "\""',
}
_ANSWER = '"answer": '
_UNUSED = '"-"'
_MOST = 256  # larger counts would make the grammar large


class _NothingFitsError(Exception):
    """No value in the conversation can be this id."""


def reply_grammar(
    tools: Sequence[ToolSpec],
    output: Mapping[str, Any] | None,
    *,
    thoughts: bool = False,
    values: GroundedValues | None = None,
    must_call: bool = False,
) -> str:
    """A call of one of the tools, with arguments that match its schema, or an answer.

    With `thoughts`, both begin with a thought of a sentence or two; with `values`, an id is one of them; with
    `must_call`, an answer is only allowed if no tool can be called.
    """
    rules = _Rules(values)
    replies: list[str] = []
    for tool in tools:
        head = _literal(f'"tool": {dump_json(tool.name)}, "args": ')
        with suppress(_NothingFitsError):
            replies.append(f"{head} {rules.of(tool.parameters)}")
    rules.values = None  # an answer may have any id
    if not must_call or not replies:
        answer = "string" if output is None else rules.of(output)
        replies.append(f"{_literal(_ANSWER)} {answer}")
    thought = r'"\"thought\": \"" char{1,120} "\", "' if thoughts else ""
    return rules.text(f'"{{" {thought} ({" | ".join(replies)}) "}}"')


def answer_grammar(output: Mapping[str, Any]) -> str:
    """Only an answer, for a request without tools."""
    rules = _Rules()
    return rules.text(rules.of(output))


class _Rules:
    """The rules of a grammar. Each schema in `$defs` becomes a rule, so that schemas may be recursive."""

    def __init__(self, values: GroundedValues | None = None) -> None:
        self._rules = dict(_COMMON)
        self.values = values
        self._named: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}

    def text(self, root: str) -> str:
        return "\n".join(f"{name} ::= {body}" for name, body in {"root": root, **self._rules}.items())

    def of(self, schema: Mapping[str, Any]) -> str:
        """An expression for a schema with its own `$defs`."""
        self._named = {}
        self._definitions = {
            f"#/{word}/{name}": inner
            for word in ("$defs", "definitions")
            if is_object(schema.get(word))
            for name, inner in schema[word].items()
        }
        return self._value(dict(schema))

    def _value(self, schema: object) -> str:
        if not is_object(schema):
            return "value"
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return _literal(spaced_json(schema["const"]))
        if is_array(schema.get("enum")):
            return _either(_literal(spaced_json(choice)) for choice in schema["enum"])
        for word in ("anyOf", "oneOf"):
            if is_array(schema.get(word)):
                return self._any_of([_marked(choice, schema) for choice in schema[word]])
        if is_array(schema.get("allOf")) and len(schema["allOf"]) == 1:
            return self._value(schema["allOf"][0])
        kind = schema.get("type")
        if is_array(kind):
            return self._any_of([{**schema, "type": str(one)} for one in kind])
        return self._kind(str(kind), schema)

    def _any_of(self, choices: Sequence[object]) -> str:
        possible: list[str] = []
        for choice in choices:
            with suppress(_NothingFitsError):
                possible.append(self._value(choice))
        if choices and not possible:
            raise _NothingFitsError
        return _either(possible)

    def _kind(self, kind: str, schema: dict[str, Any]) -> str:
        if self.values is not None and schema.get("format") == "id":
            if kind == "string":
                return _one_of(map(dump_json, self.values.fitting(schema)))
            if kind == "integer":
                return _one_of(self.values.numbers)
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                return _FORMATS.get(str(schema.get("format"))) or _string(schema)
            case "integer":
                return _integer(schema)
            case "number" | "boolean" | "null":
                return kind
            case _:
                return self._object(schema) if "properties" in schema else "value"

    def _reference(self, reference: str) -> str:
        if reference not in self._definitions:
            return "value"
        if reference not in self._named:
            name = self._named[reference] = f"ref{len(self._rules)}"
            self._rules[name] = _UNUSED  # a placeholder until the rule, which may be recursive, is complete
            try:
                self._rules[name] = self._value(self._definitions[reference])
            except _NothingFitsError:
                del self._named[reference]
                raise
        return self._named[reference]

    def _object(self, schema: dict[str, Any]) -> str:
        properties = schema.get("properties")
        if not is_object(properties):
            extra = schema.get("additionalProperties")
            if not is_object(extra):
                return "object"
            try:
                pair = f'string ": " {self._value(extra)}'
            except _NothingFitsError:
                return '"{}"'
            return f'"{{" ({pair} (", " {pair})*)? "}}"'
        required = schema.get("required") or ()
        pairs: dict[str, str] = {}
        for name, inner in properties.items():
            try:
                pairs[name] = self._pair(name, inner)
            except _NothingFitsError:
                if name in required:
                    raise
        needed = [pair for name, pair in pairs.items() if name in required]
        optional = [pair for name, pair in pairs.items() if name not in required]
        inside = ' ", " '.join(needed)
        if needed:
            inside += "".join(f' (", " {pair})?' for pair in optional)
        elif optional:
            inside = f"({self._some(optional)})?"
        return f'"{{" {inside} "}}"'

    def _some(self, optional: list[str]) -> str:
        """One or more of the pairs, in order; the first one that occurs has no comma before it."""
        tails = [f'(", " {pair})?' for pair in optional]
        return " | ".join(" ".join([pair, *tails[at + 1 :]]) for at, pair in enumerate(optional))

    def _pair(self, name: str, schema: object) -> str:
        """A rule for the pair, which may be used more than once."""
        rule = f"pair{len(self._rules)}"
        self._rules[rule] = _UNUSED
        self._rules[rule] = f"{_literal(dump_json(name) + ': ')} {self._value(schema)}"
        return rule

    def _array(self, schema: dict[str, Any]) -> str:
        fixed = schema.get("prefixItems")
        if is_array(fixed) and fixed:
            return '"[" ' + ' ", " '.join(self._value(item) for item in fixed) + ' "]"'
        least, most = _count(schema.get("minItems"), 0), _count(schema.get("maxItems"), None)
        if most == 0:
            return '"[]"'
        try:
            item = self._value(_marked(schema.get("items", {}), schema))
        except _NothingFitsError:
            if least:
                raise
            return '"[]"'
        rest = f"{{{max(least - 1, 0)},{'' if most is None else max(most, least) - 1}}}"
        inside = f'{item} (", " {item}){rest}'
        return f'"[" {inside} "]"' if least else f'"[" ({inside})? "]"'


def _marked(inner: object, outer: dict[str, Any]) -> object:
    """The inner schema, with the mark of an id that is set on a choice or a list around it."""
    return {"format": "id", **inner} if outer.get("format") == "id" and is_object(inner) else inner


def _string(schema: dict[str, Any]) -> str:
    least, most = _count(schema.get("minLength"), 0), _count(schema.get("maxLength"), None)
    if not least and most is None:
        return "string"
    return rf'"\"" char{{{least},{"" if most is None else max(most, least)}}} "\""'


def _integer(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int) and isinstance(high, int) and 0 <= high - low <= _MOST:
        return _either(_literal(str(number)) for number in range(low, high + 1))
    if isinstance(low, int) and low >= 0:
        return '("0" | [1-9] [0-9]{0,14})'
    return "integer"


def _count(value: object, otherwise: Any) -> Any:
    return value if isinstance(value, int) and 0 <= value <= _MOST else otherwise


def _either(choices: Iterable[str]) -> str:
    return f"({' | '.join(dict.fromkeys(choices)) or 'value'})"


def _one_of(texts: Iterable[str]) -> str:
    """One of the texts. Common prefixes are merged, because llama.cpp tries all alternatives at once."""
    words = sorted(set(texts))
    if not words:
        raise _NothingFitsError
    return _branches(words)


def _branches(words: list[str]) -> str:
    """Sorted words as a prefix tree."""
    start = _shared(words[0], words[-1])
    rests = [word[len(start) :] for word in words]
    if rests == [""]:
        return _literal(start)
    groups: dict[str, list[str]] = {}
    for rest in filter(None, rests):
        groups.setdefault(rest[0], []).append(rest)
    ways = f"({' | '.join(map(_branches, groups.values()))}){'' if all(rests) else '?'}"
    return f"{_literal(start)} {ways}" if start else ways


def _shared(one: str, other: str) -> str:
    pairs = zip(one, other, strict=False)
    return one[: next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))]


def _literal(text: str) -> str:
    """A GBNF string for a text, which is JSON and has no line breaks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
