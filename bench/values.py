"""Values: our base class over structs of msgspec, compared with dataclasses of the standard library.

    python -m bench.values [--rounds N]

CPU time. Every class that a run of an agent loads is made anew by each maker from the same fields, and
instances of the values of one hop are made by each. The best of several rounds in turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import wesichain.agent  # noqa: F401  # to create its classes
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    ModelResponded,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.internal import Value

HOP = (
    Usage,
    ToolCall,
    LlmResponse,
    LlmRequest,
    Message,
    StepStarted,
    ModelResponded,
    ToolDispatched,
    ToolCompleted,
)
TIMES = 5_000


def loaded() -> list[type]:
    """All our dataclasses that are created by importing the agent."""
    modules = [module for name, module in sys.modules.items() if name.startswith("wesichain")]
    found = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    return [each for each in found if dataclasses.is_dataclass(each)]


def plain_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    """The positional fields of its constructor, which all kinds of classes accept."""
    return [field for field in dataclasses.fields(cls) if not field.kw_only]


def body_of(cls: Any) -> dict[str, Any]:
    fields = plain_fields(cls)
    body: dict[str, Any] = {"__annotations__": {field.name: Any for field in fields}, "__module__": __name__}
    for field in fields:
        if field.default is not dataclasses.MISSING:
            body[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            body[field.name] = None  # a factory costs each maker a call of it: left out
    return body


def ours(cls: Any) -> Any:
    make: Any = type(Value)
    return make(cls.__name__, (Value,), body_of(cls), frozen=True)


def standard(cls: Any) -> Any:
    return dataclasses.dataclass(frozen=True, slots=True)(type(cls.__name__, (), body_of(cls)))


MAKERS: dict[str, Callable[[Any], Any]] = {"ours": ours, "standard library": standard}


def seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def making(maker: Callable[[Any], Any]) -> Callable[[], None]:
    """Creates an instance of each value of a hop, with all fields, many times."""
    makers: list[tuple[Any, list[Any]]] = [(maker(cls), [None] * len(plain_fields(cls))) for cls in HOP]

    def run() -> None:
        for make, args in makers:
            for _ in range(TIMES):
                make(*args)

    return run


def _define(maker: Callable[[Any], Any], classes: list[type]) -> None:
    for cls in classes:
        maker(cls)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    classes = loaded()
    actions: dict[str, Callable[[], object]] = {}
    for name, maker in MAKERS.items():
        actions[f"{name}: define"] = partial(_define, maker, classes)
        actions[f"{name}: make"] = making(maker)
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            best[name] = min(best[name], seconds(action))
    print(f"{len(classes)} classes defined; {len(HOP)} values of a hop made")
    for name, each in best.items():
        is_definition = name.endswith("define")
        figure = f"{each * 1e3:8.1f} ms" if is_definition else f"{each / TIMES * 1e6:8.2f} us"
        print(f"{name:34}{figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
