"""Labels: which results of a tool carry text of strangers or secrets, and which parameters people decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from wesichain.core.internal import Value, is_array, is_object

Trust: TypeAlias = Literal["inside", "outside"]

_MAX_DEPTH = 8  # of types in types; a recursive type has no end


class Outside:
    """`body: Annotated[str, Outside]` in a result: the text was written by strangers."""


class FromUser:
    """`to: Annotated[str, FromUser]` on a parameter: the value has to come from a person."""


class Secret:
    """`key: Annotated[str, Secret]` in a result: the text may not leave without a person."""


class Leaves:
    """`body: Annotated[str, Leaves]` on a parameter: the text leaves to other people or systems."""


class FieldLabels(Value):
    """The labels of a value, and of the values in it: by the name of a field, or "*" for each item."""

    own: frozenset[type] = frozenset()
    inner: Mapping[str, FieldLabels] = {}

    def has(self, label: type) -> bool:
        """Whether the value, or a value in it, has this label."""
        return label in self.own or any(one.has(label) for one in self.inner.values())

    def parts(
        self, value: Any, labels: frozenset[type] = frozenset()
    ) -> Iterator[tuple[Any, frozenset[type]]]:
        """The scalars in a JSON value, and the keys that are no declared fields, with their labels."""
        labels |= self.own
        if is_object(value):
            for name, item in value.items():
                if name not in self.inner:
                    yield name, labels
                yield from self.at(name).parts(item, labels)
        elif is_array(value):
            for item in value:
                yield from self.at("*").parts(item, labels)
        else:
            yield value, labels

    def at(self, name: str) -> FieldLabels:
        return self.inner.get(name) or self.inner.get("*") or NO_LABELS


NO_LABELS = FieldLabels()
_LABELS = frozenset({Outside, FromUser, Secret, Leaves})


class ToolLabels(Value):
    """The labels of one tool. `from_user` and `leaves` are names of parameters."""

    trust: Trust
    pure: bool
    parameters: tuple[str, ...]
    from_user: frozenset[str]
    leaves: frozenset[str]
    defaults: Mapping[str, Any]
    names: frozenset[str]  # of the fields of objects in the parameters
    result: FieldLabels = NO_LABELS

    def is_protected(self, parameter: str) -> bool:
        """Whether the value of a parameter has to come from a person, once outside text was seen."""
        return parameter in self.from_user if self.from_user else not self.pure


def labels_of(tool: Any) -> ToolLabels:
    """The labels in the annotations of a tool."""
    given = dict(_parameters(tool))
    fields: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
    returns = tool.plan().signature.returns
    return ToolLabels(
        trust=tool.trust,
        pure=tool.effect == "pure",
        parameters=tuple(fields),
        from_user=frozenset(name for name, one in given.items() if one.has(FromUser)),
        leaves=frozenset(name for name, one in given.items() if one.has(Leaves)),
        defaults={name: one["default"] for name, one in fields.items() if "default" in one},
        names=frozenset(_names_in(fields)),
        result=field_labels(returns),
    )


def _names_in(schema: Any) -> Iterator[str]:
    if is_object(schema):
        properties = schema.get("properties")
        if is_object(properties):
            yield from properties
        for item in schema.values():
            yield from _names_in(item)
    elif is_array(schema):
        for item in schema:
            yield from _names_in(item)


def _parameters(tool: Any) -> Iterator[tuple[str, FieldLabels]]:
    types: Any = getattr(tool, "types", None)
    if types is not None:  # a `TypedTool`
        yield from field_labels(types()[0]).inner.items()
    for parameter in tool.plan().signature.parameters:
        yield parameter.name, field_labels(parameter.annotation)


def field_labels(annotation: Any, depth: int = 0) -> FieldLabels:
    """The labels in an annotation: in `Annotated`, unions, lists, dicts, and the fields of classes."""
    if depth > _MAX_DEPTH:
        return NO_LABELS
    origin: Any = get_origin(annotation)
    if origin is Annotated:
        kind, *metadata = get_args(annotation)
        found = field_labels(kind, depth)
        own = frozenset(one for one in metadata if isinstance(one, type) and one in _LABELS)
        return FieldLabels(own | found.own, found.inner)
    if origin in (Union, UnionType):
        return _merged([field_labels(one, depth + 1) for one in get_args(annotation)])
    cls: Any = origin or annotation
    if not isinstance(cls, type):
        return NO_LABELS
    if is_typeddict(cls) or is_dataclass(cls) or hasattr(cls, "model_fields"):  # pyright: ignore[reportUnknownArgumentType]  # any class
        hints = get_type_hints(cls, include_extras=True)
        named = {name: field_labels(hint, depth + 1) for name, hint in hints.items()}
        return FieldLabels(inner={name: one for name, one in named.items() if one != NO_LABELS})
    items = get_args(annotation)[issubclass(cls, Mapping) :]  # of a dict, the values
    merged = _merged([field_labels(one, depth + 1) for one in items])
    return NO_LABELS if merged == NO_LABELS else FieldLabels(inner={"*": merged})


def _merged(found: list[FieldLabels]) -> FieldLabels:
    """The labels of a value that has one of several types."""
    labelled = [one for one in found if one != NO_LABELS]
    if len(labelled) < 2:
        return labelled[0] if labelled else NO_LABELS
    names = dict.fromkeys(name for one in labelled for name in one.inner)
    inner = {name: _merged([one.inner.get(name, NO_LABELS) for one in labelled]) for name in names}
    own: frozenset[type] = frozenset(label for one in labelled for label in one.own)
    return FieldLabels(own, inner)
