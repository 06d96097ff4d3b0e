"""Opening: the value that a user's function makes for one use, closed at the end of that use."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, cast

from .positions import positions_of


@asynccontextmanager
async def opened(make: Callable[..., Any], *args: object) -> AsyncGenerator[Any]:
    """Call a function, and yield what it makes for the duration of a block.

    The function may be async, and receives as many of the arguments as it takes. What `makes_contexts` is
    entered, and closed with the block.
    """
    made: Any = make(*args[: int(min(positions_of(make, unknown=0)[1], len(args)))])
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager) and makes_contexts(make):
        entered: AbstractAsyncContextManager[Any] = cast("Any", made)
        async with entered as value:
            yield value
    elif isinstance(made, AbstractContextManager) and makes_contexts(make):
        manager: AbstractContextManager[Any] = cast("Any", made)
        with manager as value:
            yield value
    else:
        yield made


def makes_contexts(make: Callable[..., Any]) -> bool:
    """Whether a context manager that this returns is a new one, which only its caller enters.

    That is so for a class, and for a generator with `@contextmanager` or `@asynccontextmanager`. Any other
    function may return an object that others use too.
    """
    while isinstance(make, partial):
        make = make.func
    inner = inspect.unwrap(make)
    return inspect.isclass(make) or inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner)
