"""Loading: the user's tools and agents from Python files and modules, and the model to use."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from pathlib import Path
from sysconfig import get_paths
from traceback import extract_tb
from types import ModuleType
from typing import Any, cast

from wesichain.core.internal import opened
from wesichain.errors import ConfigError
from wesichain.tools import Tool, TypedTool

_PACKAGE = Path(__file__).parents[1]
DEFAULT_MODEL = "local:qwen2.5-coder-0.5b"


def chosen_model(model: str | None) -> str:
    """The model of the option, else of `$WESICHAIN_MODEL`, else a local default, which needs no key."""
    if model is not None and not model.strip():
        raise ConfigError("--model is empty; write openai:NAME, anthropic:NAME, ollama:NAME or local:NAME")
    return model or os.environ.get("WESICHAIN_MODEL") or DEFAULT_MODEL


def fetch_local_model(model: str) -> None:
    """Download a local model before a run, with a progress bar, unless it is on this machine."""
    provider, _, name = model.partition(":")
    if provider != "local" or Path(name).exists():
        return
    from wesichain.llm.local import StderrProgress, cached_model, fetch_model, find_model

    card = find_model(name)
    if cached_model(card) is None:
        fetch_model(card, progress=StderrProgress())


def load_tools(path: Path) -> list[Any]:
    """Load the tools of a Python file.

    These are its list `tools`, else all its objects made with @tool or TypedTool, else its public functions,
    which need annotations as in `Agent(tools=...)`.
    """
    module = _module_from(path)
    listed = getattr(module, "tools", None)
    if isinstance(listed, list | tuple):
        return [*cast("list[Any]", listed)]
    values = [*vars(module).values()]
    found = [value for value in values if _is_tool(value)] or [
        value for value in values if _is_public_function(value, module)
    ]
    if not found:
        raise ConfigError(f"{path} has no tools: write a function, or make a list named 'tools'")
    return found


def _is_public_function(value: object, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__[0] != "_"


def _is_tool(value: object) -> bool:
    is_class = inspect.isclass(value) and issubclass(value, TypedTool) and value.__name__ != "TypedTool"
    return isinstance(value, Tool) or is_class


@asynccontextmanager
async def open_target(target: str, *wanted: type) -> AsyncGenerator[Any]:
    """Open the object that a target names, for the duration of a block; check its type if any are given.

    The target is the object, which has a method `run`, or a factory of it: a function without arguments, sync
    or async, or a context manager, sync or async, which is closed with the block: for resources such as the
    connection to an MCP server.
    """
    found = _call_factory(_load(target), wanted, target)
    if inspect.isawaitable(found):
        try:
            found = await found
        except Exception as error:
            raise _user_error(f"{target!r} cannot be made", error) from error
    is_agent = hasattr(found, "run")
    async with AsyncExitStack() as stack:
        if isinstance(found, AbstractAsyncContextManager) and not is_agent:
            found = await stack.enter_async_context(cast("AbstractAsyncContextManager[Any]", found))
        elif isinstance(found, AbstractContextManager) and not is_agent:
            found = stack.enter_context(cast("AbstractContextManager[Any]", found))
        yield _of_type(found, wanted, target)


@asynccontextmanager
async def open_deps(target: str) -> AsyncGenerator[Any]:
    """Open the deps that a target names, for the duration of a block: an object, or what a function makes."""
    make = _load(target)
    async with AsyncExitStack() as stack:
        if callable(make):
            try:
                make = await stack.enter_async_context(opened(make))
            except Exception as error:
                raise _user_error(f"--deps {target}: the deps cannot be made", error) from error
        yield make


def _of_type(found: Any, wanted: tuple[type, ...], target: str) -> Any:
    if isinstance(found, wanted) or not wanted:
        return found
    names = [f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in (one.__name__ for one in wanted)]
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    raise ConfigError(f"{target!r} has the type {type(found).__name__}, not {listed}")


def load_object(target: str, wanted: type) -> Any:
    """Load the object that a target names; if that has another type and is callable, call it."""
    return _of_type(_call_factory(_load(target), (wanted,), target), (wanted,), target)


def _call_factory(found: Any, wanted: tuple[type, ...], target: str) -> Any:
    """Call a factory; return an object that is of a wanted type or not callable."""
    if isinstance(found, wanted) or not callable(found):
        return found
    try:
        return found()
    except Exception as error:
        raise _user_error(f"{target!r} cannot be made", error) from error


def _user_error(what: str, error: Exception) -> Exception:
    """A `ConfigError` for an exception in the user's code, with the file and line of the user."""
    if isinstance(error, ConfigError):
        return error
    lines = [frame for frame in extract_tb(error.__traceback__) if _is_user_file(Path(frame.filename))]
    where = f" ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else ""
    return ConfigError(f"{what}: {type(error).__name__}: {error}{where}")


def _is_user_file(file: Path) -> bool:
    """Whether a file belongs to the user: not to Python, an installed package, or wesichain."""
    installed = [Path(get_paths()[name]) for name in ("stdlib", "purelib", "platlib")]
    return file.is_file() and not any(
        file.resolve().is_relative_to(folder) for folder in [_PACKAGE, *installed]
    )


def _load(target: str) -> Any:
    where, _, name = target.rpartition(":")
    if not where:
        raise ConfigError(f"{target!r} has no name; write file.py:NAME or package.module:NAME")
    module = _module_from(Path(where)) if where.endswith(".py") else _imported(where)
    if not hasattr(module, name):
        raise ConfigError(f"{where} has nothing named {name!r}")
    return getattr(module, name)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"there is no module {name!r}: {error}") from error
        raise _user_error(f"{name} cannot be loaded", error) from error
    except Exception as error:
        raise _user_error(f"{name} cannot be loaded", error) from error


_loaded: dict[Path, tuple[tuple[int, int], ModuleType]] = {}  # with the time and the size of the file


def _module_from(path: Path) -> ModuleType:
    """Load a file, once while it does not change: the classes of an agent and of its deps are the same."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    state, key = path.stat(), path.resolve()
    version = (state.st_mtime_ns, state.st_size)
    known = _loaded.get(key)
    if known is None or known[0] != version:
        known = _loaded[key] = (version, _executed(path))
    return known[1]


def _executed(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"wesichain_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _user_error(f"{path} cannot be loaded", error) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module
