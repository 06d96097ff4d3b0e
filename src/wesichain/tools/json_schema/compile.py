"""Compile: compiles a JSON Schema, draft 2020-12, to functions.

`format`, `content*`, titles, defaults and unknown keywords are annotations, and are not checked. Keywords of
earlier drafts are supported: `definitions`, `dependencies`, and `items` as a list with `additionalItems`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from math import inf
from typing import Any

from wesichain.core.internal import Value, check_depth, dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError, ToolDefinitionError

from . import applicators as apply
from .applicators import Others, SchemaNode
from .issues import Issue
from .keywords import SIMPLE, Check, SchemaRun, check_type, fault, is_integer, name_list, refuse
from .pattern import Pattern, compile_pattern
from .references import METASCHEMA, References
from .shape import children, is_schema


class Validator(Value):
    """A compiled schema."""

    _root: SchemaNode

    def issues(self, value: Any) -> list[Issue]:
        """Return at most ten issues of a JSON value of bounded depth; an empty list if it is valid."""
        try:
            return self._root.check(value, SchemaRun()) or []
        except RecursionError:
            return fault("cannot be checked: the schema refers to itself too often for this value")


def compile_schema(schema: Mapping[str, Any] | bool) -> Validator:
    """Compile a schema. Raises `ToolDefinitionError` if it is not valid."""
    try:
        document = parse_json(dump_json(schema))  # a copy, in which every schema is a distinct object
        return Validator(_Compiler(document).node(document))
    except CodecError as error:
        raise ToolDefinitionError(f"schema: {error}") from None
    except RecursionError:
        raise ToolDefinitionError("schema: it nests too deeply") from None


def validate(schema: Mapping[str, Any] | bool, value: Any) -> list[str]:
    """Return the errors of a value as messages; an empty list means that it is valid."""
    validator = compile_schema(schema)
    try:
        dump_json(value)
        check_depth(value)
    except CodecError as error:
        return [str(error)]
    return [str(issue) for issue in validator.issues(value)]


class _Compiler:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._references = References(document)
        self._nodes: dict[int, SchemaNode] = {}

    def node(self, schema: Any) -> SchemaNode:
        if not is_object(schema):
            return self._boolean(schema)
        known = self._nodes.get(id(schema))
        if known is not None:
            return known
        node = self._nodes[id(schema)] = SchemaNode()
        for location, child in children(schema):
            if not is_schema(child):
                raise refuse("/".join(map(str, location)), "a schema (an object, true or false)", child)
            self.node(child)
        if "type" in schema:
            node.gate, node.plain = check_type(schema["type"])
        for keyword in filter(SIMPLE.__contains__, schema):
            check = SIMPLE[keyword](schema[keyword])
            if check is not None:
                node.checks.append(check)
        self._combinators(schema, node)
        self._object(schema, node)
        self._array(schema, node)
        self._unevaluated(schema, node)
        return node

    def _boolean(self, schema: Any) -> SchemaNode:
        if not isinstance(schema, bool):
            raise refuse("the schema", "an object, true or false", schema)
        node = SchemaNode()
        if not schema:
            node.checks.append(lambda _, __, ___: fault("is not allowed here"))
        return node

    def _combinators(self, schema: dict[str, Any], node: SchemaNode) -> None:
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in schema:
                self._reference(keyword, schema, node)
        for keyword, build in (
            ("allOf", apply.all_of),
            ("anyOf", apply.any_of),
            ("oneOf", apply.one_of_nodes),
        ):
            if keyword in schema:
                node.checks.append(build([self.node(item) for item in _list(keyword, schema[keyword])]))
        if "not" in schema:
            node.checks.append(apply.not_(self.node(schema["not"])))
        if "if" in schema:
            condition = self.node(schema["if"])
            then, otherwise = (
                self.node(schema[branch]) if branch in schema else None for branch in ("then", "else")
            )
            node.checks.append(apply.if_then_else(condition, then, otherwise))

    def _reference(self, keyword: str, schema: dict[str, Any], node: SchemaNode) -> None:
        reference = schema[keyword]
        if not isinstance(reference, str):
            raise refuse(keyword, "a string", reference)
        if reference.rstrip("#") == METASCHEMA:
            node.checks.append(lambda value, _, __: _is_schema_document(value))
            return
        target = self.node(self._references.resolve(reference, schema))
        node.checks.append(apply.follow_reference(target))

    def _object(self, schema: dict[str, Any], node: SchemaNode) -> None:
        fields = self._mapping("properties", schema)
        patterns = [
            (compile_pattern(source), child)
            for source, child in self._mapping("patternProperties", schema).items()
        ]
        if fields:
            pairs = tuple(fields.items())
            node.checks.append(apply.each(dict, lambda value: [each for each in pairs if each[0] in value]))
        if patterns:
            node.checks.append(apply.each(dict, lambda value: _matching(patterns, value)))
        if "additionalProperties" in schema:
            others = Others(fields, [pattern for pattern, _ in patterns])
            node.checks.append(self._additional(schema["additionalProperties"], others))
        if "propertyNames" in schema:
            node.checks.append(apply.property_names(self.node(schema["propertyNames"])))
        dependent = self._mapping("dependentSchemas", schema) | self._mapping("dependencies", schema)
        if dependent:
            node.checks.append(apply.dependent_schemas(dependent))
        needs = {
            name: name_list(keyword, names)
            for keyword in ("dependentRequired", "dependencies")
            for name, names in _object(keyword, schema.get(keyword, {})).items()
            if keyword == "dependentRequired" or is_array(names)
        }
        if needs:
            node.checks.append(apply.dependent_required(needs))

    def _additional(self, operand: Any, others: Others) -> Check:
        node = self.node(operand)
        if operand is True:
            return apply.accept_all(dict)
        if operand is False:
            return apply.no_other_fields(others)
        return apply.each(dict, lambda value: [(name, node) for name in others.of(value)])

    def _array(self, schema: dict[str, Any], node: SchemaNode) -> None:
        prefix, items = schema.get("prefixItems", []), schema.get("items")
        if is_array(items):
            prefix, items = items, schema.get("additionalItems")
        first = [self.node(item) for item in _list("prefixItems", prefix)]
        if first:
            node.checks.append(apply.each(list, lambda value: enumerate(first[: len(value)])))
        if items is not None:
            node.checks.append(self._items(items, len(first)))
        if "contains" in schema:
            least, most = (_size(name, schema.get(name)) for name in ("minContains", "maxContains"))
            contained = self.node(schema["contains"])
            node.checks.append(
                apply.contains(contained, 1 if least is None else least, inf if most is None else most)
            )

    def _items(self, operand: Any, start: int) -> Check:
        node = self.node(operand)
        if operand is True:
            return apply.accept_all(list)
        if operand is False:
            return apply.no_items_after(start)
        return apply.each(list, lambda value: zip(range(start, len(value)), repeat(node), strict=False))

    def _unevaluated(self, schema: dict[str, Any], node: SchemaNode) -> None:
        for keyword, kind in (("unevaluatedProperties", dict), ("unevaluatedItems", list)):
            if keyword in schema:
                node.collects = True
                node.checks.append(apply.unevaluated(kind, self.node(schema[keyword])))

    def _mapping(self, keyword: str, schema: dict[str, Any]) -> dict[str, SchemaNode]:
        operand = _object(keyword, schema.get(keyword, {}))
        return {name: self.node(child) for name, child in operand.items() if not is_array(child)}


def _is_schema_document(value: Any) -> list[Issue] | None:
    """Check that the value is a schema, as a `$ref` to the metaschema requires."""
    try:
        compile_schema(value)
    except ToolDefinitionError as error:
        return fault(f"expected a JSON Schema: {error}")
    return None


def _matching(patterns: list[tuple[Pattern, SchemaNode]], value: dict[str, Any]) -> apply.Parts:
    return [(name, node) for name in value for pattern, node in patterns if pattern.matches(name)]


def _list(keyword: str, operand: Any) -> list[Any]:
    if not is_array(operand):
        raise refuse(keyword, "a list of schemas", operand)
    return operand


def _object(keyword: str, operand: Any) -> dict[str, Any]:
    if not is_object(operand):
        raise refuse(keyword, "an object", operand)
    return operand


def _size(keyword: str, operand: Any) -> int | None:
    if operand is not None and (not is_integer(operand) or operand < 0):
        raise refuse(keyword, "a whole number, 0 or more", operand)
    return None if operand is None else int(operand)
