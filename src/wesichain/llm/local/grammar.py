"""What a model's reply may look like, as a grammar for llama.cpp (GBNF), made from JSON schemas.

The grammar writes JSON in one way only, `{"a": 1, "b": [2, 3]}`, so that no token is spent on indentation.
Of JSON Schema it knows what shapes a value; what it does not know (`pattern`, `not`, bounds of large
numbers) it leaves out: the reply may then be a little wider than the schema, and the runtime checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wesichain.core import ToolSpec, dump_json, is_array, is_object

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
_MOST = 256  # longer counts make the grammar, not the reply, large


def reply_grammar(
    tools: Sequence[ToolSpec], output: Mapping[str, Any] | None, *, thoughts: bool = False
) -> str:
    """Either a call of one of the tools, with arguments that follow its schema, or an answer.

    With `thoughts`, both begin with one, of a sentence or two.
    """
    rules = _Rules()
    replies: list[str] = []
    for tool in tools:
        head = _literal(f'"tool": {dump_json(tool.name)}, "args": ')
        replies.append(f"{head} {rules.of(tool.parameters)}")
    answer = "string" if output is None else rules.of(output)
    replies.append(f"{_literal(_ANSWER)} {answer}")
    thought = r'"\"thought\": \"" char{1,120} "\", "' if thoughts else ""
    return rules.text(f'"{{" {thought} ({" | ".join(replies)}) "}}"')


def answer_grammar(output: Mapping[str, Any]) -> str:
    """The answer alone, for a request without tools."""
    rules = _Rules()
    return rules.text(rules.of(output))


def spaced_json(value: object) -> str:
    """JSON as the grammar has it written, and as models like to write it."""
    if is_object(value):
        return (
            "{" + ", ".join(f"{dump_json(name)}: {spaced_json(item)}" for name, item in value.items()) + "}"
        )
    if is_array(value):
        return "[" + ", ".join(map(spaced_json, value)) + "]"
    return dump_json(value)


class _Rules:
    """The rules so far. Each schema with a name in `$defs` becomes one, so that schemas may be recursive."""

    def __init__(self) -> None:
        self._rules = dict(_COMMON)
        self._named: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}

    def text(self, root: str) -> str:
        return "\n".join(f"{name} ::= {body}" for name, body in {"root": root, **self._rules}.items())

    def of(self, schema: Mapping[str, Any]) -> str:
        """An expression for a schema that stands alone, with its own `$defs`."""
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
                return _either(self._value(choice) for choice in schema[word])
        if is_array(schema.get("allOf")) and len(schema["allOf"]) == 1:
            return self._value(schema["allOf"][0])
        kind = schema.get("type")
        if is_array(kind):
            return _either(self._kind(str(one), schema) for one in kind)
        return self._kind(str(kind), schema)

    def _kind(self, kind: str, schema: dict[str, Any]) -> str:
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
            self._rules[name] = ""  # holds the place while the rule, which may need itself, is made
            self._rules[name] = self._value(self._definitions[reference])
        return self._named[reference]

    def _object(self, schema: dict[str, Any]) -> str:
        properties = schema.get("properties")
        if not is_object(properties):
            extra = schema.get("additionalProperties")
            if not is_object(extra):
                return "object"
            pair = f'string ": " {self._value(extra)}'
            return f'"{{" ({pair} (", " {pair})*)? "}}"'
        pairs = {name: self._pair(name, inner) for name, inner in properties.items()}
        required = schema.get("required") or ()
        needed = [pair for name, pair in pairs.items() if name in required]
        optional = [pair for name, pair in pairs.items() if name not in required]
        inside = ' ", " '.join(needed)
        if needed:
            inside += "".join(f' (", " {pair})?' for pair in optional)
        elif optional:
            inside = f"({self._some(optional)})?"
        return f'"{{" {inside} "}}"'

    def _some(self, optional: list[str]) -> str:
        """One or more of the pairs, in order: whichever comes first has no comma before it."""
        tails = [f'(", " {pair})?' for pair in optional]
        return " | ".join(" ".join([pair, *tails[at + 1 :]]) for at, pair in enumerate(optional))

    def _pair(self, name: str, schema: object) -> str:
        """A rule of its own, since a pair may be named more than once."""
        rule = f"pair{len(self._rules)}"
        self._rules[rule] = ""
        self._rules[rule] = f"{_literal(dump_json(name) + ': ')} {self._value(schema)}"
        return rule

    def _array(self, schema: dict[str, Any]) -> str:
        fixed = schema.get("prefixItems")
        if is_array(fixed) and fixed:
            return '"[" ' + ' ", " '.join(self._value(item) for item in fixed) + ' "]"'
        item = self._value(schema.get("items", {}))
        least, most = _count(schema.get("minItems"), 0), _count(schema.get("maxItems"), None)
        if most == 0:
            return '"[]"'
        rest = f"{{{max(least - 1, 0)},{'' if most is None else max(most, least) - 1}}}"
        inside = f'{item} (", " {item}){rest}'
        return f'"[" {inside} "]"' if least else f'"[" ({inside})? "]"'


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


def _literal(text: str) -> str:
    """A GBNF string that matches this text, which is JSON and so has no line breaks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
