"""Schemas: the keys of a state type, and how its values are read and written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from enum import Enum
from functools import partial
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from wesichain.core.internal import Value
from wesichain.errors import GraphDefinitionError

from .kinds import build_dataclass, fields_of, is_dataclass_type, is_mapping, is_model, is_typed_dict
from .owned import AppendOnlyList, StateView, clone, is_copied, plain_list
from .reducers import UNSET, Append, Marker, Overwrite, PerStep, Reducer, Untracked, Zero, as_items, zero_of

HIDDEN = "__inner__:"  # the prefix of hidden keys


class Form(Enum):
    """The form of the state that nodes receive."""

    MAPPING = "mapping"
    DATACLASS = "dataclass"
    PYDANTIC = "pydantic"


class Key(Value):
    """A key of a state: its type, its reducer and its initial value."""

    name: str
    type: Any = Any
    reducer: Reducer | None = None
    start: Zero | None = None
    tracked: bool = True
    per_step: bool = False
    kept: Any = None  # the definition of an inner graph whose state is the value of this hidden key


StateValues: TypeAlias = Mapping[str, Any]
"""The values of a state, owned by the run; each super-step makes a new mapping."""


def copies(values: StateValues) -> dict[str, Any]:
    """Copy all mutable values."""
    return {name: clone(value) for name, value in values.items()}


class Schema:
    """A state type as the engine uses it, made by `schema_of`.

    `hidden` keys belong to the graph, not to the type; nodes do not see them.
    """

    __slots__ = ("form", "hidden", "is_open", "keys", "per_step", "type")

    def __init__(
        self,
        type_: type,
        *,
        form: Form,
        keys: Mapping[str, Key] | None,
        hidden: Mapping[str, Key] | None = None,
    ) -> None:
        self.type = type_
        self.form = form
        self.keys: Mapping[str, Key] = keys or {}
        self.hidden: Mapping[str, Key] = hidden or {}
        self.is_open = keys is None  # a plain dict: any key may be written
        self.per_step = tuple(name for name, key in self.keys.items() if key.per_step)

    def key(self, name: Any) -> Key | None:
        """Return the key with this name; None if the type has none."""
        found = self.keys.get(name) or self.hidden.get(name)
        if found is None and self.is_open and isinstance(name, str):
            return Key(name)
        return found

    def with_hidden(self, key: Key) -> Schema:
        keys = None if self.is_open else self.keys
        return Schema(self.type, form=self.form, keys=keys, hidden={**self.hidden, key.name: key})

    def part(self, names: Iterable[str] | None) -> Schema:
        """Return the schema of a dict with some of the keys, or all of them; includes hidden keys."""
        if names is None:
            return Schema(
                dict, form=Form.MAPPING, keys=None if self.is_open else {**self.keys, **self.hidden}
            )
        found = {name: key for name in names if (key := self.key(name)) is not None}
        return Schema(dict, form=Form.MAPPING, keys=found)

    def start(self) -> dict[str, Any]:
        """Return the initial values."""
        data: dict[str, Any] = {}
        for key in self.keys.values():
            if key.start is not None:
                put(data, key, clone(key.start()))
        return data

    def values(self, data: Mapping[str, Any]) -> StateValues:
        """Return values from the kept state of an inner graph; missing keys get their initial values."""
        values = self.start()
        for name, item in data.items():
            if (key := self.key(name)) is not None:
                put(values, key, clone(item))
        return values

    def view(self, values: StateValues) -> Any:
        """Return the state for a node, which may change it."""
        if self.form is not Form.MAPPING:
            return self.build(copies(values))
        values = self._visible(values)
        unread = {name: value for name, value in values.items() if is_copied(value)}
        return StateView(values, unread) if unread else dict(values)

    def _visible(self, values: StateValues) -> StateValues:
        names = values.keys()
        if (not self.hidden) if self.is_open else names <= self.keys.keys():
            return values
        unseen = names & self.hidden.keys() if self.is_open else names - self.keys.keys()
        return {name: item for name, item in values.items() if name not in unseen}

    def build(self, data: Mapping[str, Any]) -> Any:
        """Build a state of the schema's type, without copying the values."""
        if self.form is Form.MAPPING:
            return {
                name: item
                for name, item in data.items()
                if (self.is_open and name not in self.hidden) or name in self.keys
            }
        mine = {name: data[name] for name in self.keys if name in data}
        if self.form is Form.PYDANTIC:
            return cast("Any", self.type).model_construct(**mine)
        return build_dataclass(self.type, mine)

    def contents(self, state: Any) -> Mapping[str, Any]:
        """Return the values of a state of this type by key, without copying them."""
        if is_mapping(state):
            return state
        return {name: getattr(state, name) for name in self.keys if hasattr(state, name)}

    def holds(self, value: Any) -> bool:
        """Whether the value is a whole state of this type, rather than an update of one."""
        return self.form is not Form.MAPPING and isinstance(value, self.type)

    def checked(self, data: Mapping[str, Any], key: str, value: Any) -> Any:
        """Validate a value of a pydantic model, which may convert it; other values are returned unchanged."""
        if self.form is not Form.PYDANTIC or key in self.hidden:
            return value
        model = cast("Any", self.type)
        probe = model.model_construct(
            **{name: plain_list(item) for name, item in data.items() if name in self.keys}
        )
        model.__pydantic_validator__.validate_assignment(probe, key, value)
        return getattr(probe, key)

    def validated(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the input of a run if the type is a pydantic model; raises its ValidationError."""
        if self.form is not Form.PYDANTIC:
            return dict(data)
        model = cast("Any", self.type).model_validate(dict(data))
        return {name: getattr(model, name) for name in self.keys if name in data}

    def missing(self, values: StateValues) -> list[str]:
        """Return the required keys that have no value."""
        return [] if self.form is Form.MAPPING else [name for name in self.keys if name not in values]


def put(data: dict[str, Any], key: Key, value: Any) -> None:
    """Set a value, without copying it."""
    if key.reducer is Append and type(value) is not AppendOnlyList:
        value = AppendOnlyList(as_items(value))
    data[key.name] = value


# --- reading a type --------------------------------------------------------------------------------


def schema_of(type_: Any) -> Schema:
    """Return the schema of dict, a TypedDict, a dataclass or a pydantic model."""
    if type_ is dict or get_origin(type_) is dict:
        return Schema(dict, form=Form.MAPPING, keys=None)
    if is_typed_dict(type_):
        return Schema(type_, form=Form.MAPPING, keys=_keys(type_, {}))
    if is_model(type_):
        return Schema(type_, form=Form.PYDANTIC, keys=_keys(type_, _model_defaults(type_)))
    if is_dataclass_type(type_):
        return Schema(type_, form=Form.DATACLASS, keys=_keys(type_, _field_defaults(type_)))
    raise GraphDefinitionError(
        f"{getattr(type_, '__name__', type_)!r} cannot be a graph's state; "
        f"use dict, a TypedDict, a dataclass or a pydantic model"
    )


def _keys(type_: type, defaults: Mapping[str, Zero]) -> dict[str, Key]:
    hints = _hints(type_)
    return {
        name: _key(name, hint, defaults.get(name), type_)
        for name, hint in hints.items()
        if name in defaults or _is_key(type_, name)
    }


def _is_key(type_: Any, name: str) -> bool:
    if is_dataclass_type(type_):
        return any(field.name == name for field in fields_of(type_))
    return name in type_.model_fields if is_model(type_) else True


def _hints(type_: type) -> dict[str, Any]:
    try:
        return get_type_hints(type_, include_extras=True)
    except NameError:
        pass
    try:
        return get_type_hints(type_, localns=_names_around(type_), include_extras=True)
    except NameError as error:
        raise GraphDefinitionError(
            f"state {type_.__name__}: its annotations cannot be read ({error}); "
            f"move the class, or the name, to the top of the module"
        ) from error


def _names_around(type_: type) -> dict[str, Any]:
    """Return the local names of the running functions of its module, which a local class may refer to."""
    found: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == type_.__module__:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _key(name: str, hint: Any, default: Zero | None, owner: type) -> Key:
    while get_origin(hint) in (Required, NotRequired):
        (hint,) = get_args(hint)
    reducer: Reducer | None = None
    markers: list[Marker] = []
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        for extra in extras:
            if isinstance(extra, Marker):
                markers.append(extra)
            elif (found := _as_reducer(extra)) is not None:
                if reducer is not None:
                    raise GraphDefinitionError(
                        f"state {owner.__name__}: the key {name!r} has two reducers; use one"
                    )
                reducer = found
            elif inspect.isfunction(extra):
                raise GraphDefinitionError(
                    f"state {owner.__name__}: the reducer {extra.__name__} of the key {name!r} does not take "
                    f"two arguments; it is called with the old value and the new one"
                )
    zero = None
    if reducer is not None:
        zero = reducer.zero or zero_of(get_origin(hint) or hint)
    return Key(
        name,
        hint,
        reducer if reducer is not _PLAIN else None,
        default if default is not None else zero,
        tracked=Untracked not in markers,
        per_step=PerStep in markers,
    )


_PLAIN = Reducer("Overwrite", lambda _, new: new)


def _as_reducer(extra: Any) -> Reducer | None:
    """Return the reducer in the metadata of an annotation; None for the metadata of other libraries."""
    if isinstance(extra, Reducer):
        return extra
    if extra is Overwrite:
        return _PLAIN
    if callable(extra) and not isinstance(extra, type) and _takes_two(extra):
        return Reducer(getattr(extra, "__name__", "reducer"), extra)
    return None


def _takes_two(call: Callable[..., Any]) -> bool:
    try:
        inspect.signature(call).bind(UNSET, UNSET)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature, such as max
        return True
    return True


def _field_defaults(type_: type) -> dict[str, Zero]:
    found: dict[str, Zero] = {}
    for field in fields_of(type_):
        if field.default_factory is not MISSING:
            found[field.name] = field.default_factory
        elif field.default is not MISSING:
            found[field.name] = _constant(field.default)
    return found


def _model_defaults(type_: Any) -> dict[str, Zero]:
    optional = {name: field for name, field in type_.model_fields.items() if not field.is_required()}
    return {name: partial(field.get_default, call_default_factory=True) for name, field in optional.items()}


def _constant(value: Any) -> Zero:
    return lambda: value
