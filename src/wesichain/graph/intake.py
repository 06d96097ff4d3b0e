"""The input of a run, and updates from outside: writes like any other, made before the first node."""

from __future__ import annotations

from typing import Any

from wesichain.core.internal import same
from wesichain.errors import GraphError

from .definition import START, Definition
from .state.kinds import is_mapping
from .state.owned import clone, plain_list
from .state.reducers import Overwrite
from .state.schema import Schema, StateValues
from .state.updates import NodeResult, NotAnUpdateError, Send, Write, is_overwrite, known_key, read_result
from .superstep import Folded, NodeTask, check_target, fold


def take_input(
    definition: Definition, given: Any, values: StateValues | None = None, *, as_it_is: bool = False
) -> Folded:
    """Fold the input of a run into the values of its thread, or into the state's beginnings.

    On a new thread a whole state is the state. On one that has values it is merged: keys with a reducer
    are folded, unless they are as they begin; the others are set. `as_it_is`: what is given are the values
    of a state already, as those are that a graph outside has.
    """
    schema = definition.schema
    try:
        writes = _read(schema, given, values)
        if as_it_is:
            writes = [(name, value if is_overwrite(value) else Overwrite(value)) for name, value in writes]
    except NotAnUpdateError as error:
        raise GraphError(f"the input: {error}", node=START) from error
    except Exception as error:
        raise GraphError(f"the input is not a {schema.type.__name__}: {error}", node=START) from error
    folded = fold(
        schema,
        schema.start() if values is None else values,
        [(NodeTask(START, START), NodeResult(tuple(writes)))],
    )
    if missing := schema.missing(folded.values):
        raise GraphError(f"the input lacks {', '.join(map(repr, missing))}", node=START)
    return folded


def _read(schema: Schema, given: Any, values: StateValues | None) -> list[Write]:
    if given is None:
        return []
    if schema.holds(given):
        return _as_writes(schema, given, fresh=values is None)
    if not is_mapping(given):
        raise NotAnUpdateError(
            f"{type(given).__name__} is not a state; pass a {schema.type.__name__} or a mapping"
        )
    mapping = given
    for name in mapping:
        known_key(schema, name)
    if values is None:
        mapping = schema.validated(mapping)
    return list(read_result(schema, mapping, view=None, values=values or schema.start()).writes)


def _as_writes(schema: Schema, state: Any, *, fresh: bool) -> list[Write]:
    writes: list[Write] = []
    for name, value in schema.contents(state).items():
        key = schema.keys[name]
        if fresh or key.reducer is None:
            writes.append((name, Overwrite(clone(value))))
        elif key.start is None or not same(plain_list(key.start()), value):
            writes.append((name, clone(value)))
    return writes


def take_update(
    definition: Definition, given: Any, values: StateValues, node: str | None
) -> tuple[Folded, tuple[str | Send, ...]]:
    """Fold an update that a person makes between two super-steps; and where it says to go."""
    try:
        result = read_result(definition.schema, given, view=None, values=values)
    except NotAnUpdateError as error:
        raise GraphError(f"the update: {error}", node=node) from error
    goto = [check_target(definition, node or START, target) for target in result.goto]
    return fold(definition.schema, values, [(NodeTask(node or START, node or START), result)]), tuple(goto)
