"""Loading: a user's tools and agents from Python files and modules, and the model that is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from sysconfig import get_paths
from traceback import extract_tb
from types import ModuleType
from typing import Any, cast

from wesichain.agent import Agent
from wesichain.errors import ConfigError
from wesichain.tools import Tool, TypedTool

_PACKAGE = Path(__file__).parents[1]
DEFAULT_MODEL = "local:qwen2.5-coder-0.5b"


def chosen_model(model: str | None) -> str:
    """The model of the option, else of `$WESICHAIN_MODEL`, else the local default: it needs no key."""
    if model is not None and not model.strip():
        raise ConfigError("--model is empty; write openai:NAME, anthropic:NAME, ollama:NAME or local:NAME")
    return model or os.environ.get("WESICHAIN_MODEL") or DEFAULT_MODEL


def fetch(model: str) -> None:
    """See that the file of a local model is on this machine: a download shows how far it is, before a run."""
    provider, _, name = model.partition(":")
    if provider != "local" or Path(name).exists():
        return
    from wesichain.llm.local import StderrProgress, cached_model, fetch_model, find_model

    card = find_model(name)
    if cached_model(card) is None:
        fetch_model(card, progress=StderrProgress())


def load_tools(path: Path) -> list[Any]:
    """The tools of a Python file.

    They are its `tools` list, else everything in it made with @tool or TypedTool, else its public functions,
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
    made = inspect.isclass(value) and issubclass(value, TypedTool) and value.__name__ != "TypedTool"
    return isinstance(value, Tool) or made


def load_agent(target: str) -> Agent[Any]:
    """An agent by `path/to/file.py:name` or `package.module:name`; a function of no arguments may make it."""
    found: Agent[Any] = load_object(target, Agent)
    return found


@asynccontextmanager
async def opened(target: str, *wanted: type) -> AsyncGenerator[Any]:
    """The object that a target names, of a wanted type if any is given, for as long as the block is in use.

    The target is the object, which has a `run`, or a factory of it: a function of no arguments, sync or
    async, or an async context manager, which is left with the block. What lives inside `async with`, such as
    the tools of an MCP server, belongs into the last.
    """
    found = _from_factory(_named(target), wanted, target)
    if inspect.isawaitable(found):
        try:
            found = await found
        except Exception as error:
            raise _fault(f"{target!r} cannot be made", error) from error
    is_agent = hasattr(found, "run")
    if isinstance(found, AbstractAsyncContextManager) and not is_agent:
        manager: AbstractAsyncContextManager[Any] = cast("Any", found)
        async with manager as made:
            yield _of_type(made, wanted, target)
    else:
        yield _of_type(found, wanted, target)


def _of_type(found: Any, wanted: tuple[type, ...], target: str) -> Any:
    if isinstance(found, wanted) or not wanted:
        return found
    names = [f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in (one.__name__ for one in wanted)]
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    raise ConfigError(f"{target!r} has the type {type(found).__name__}, not {listed}")


def load_object(target: str, wanted: type) -> Any:
    """The object of a type that a target names; if that is a function of another type, what it returns."""
    found = _named(target)
    made = _from_factory(found, (wanted,), target)
    is_coroutine = inspect.iscoroutine(made)
    if is_coroutine or (hasattr(made, "__aenter__") and not hasattr(made, "run")):
        if is_coroutine:
            made.close()
        raise ConfigError(
            f"{target!r} makes its agent in an event loop, which 'wesichain worker', 'eval' and 'api' take; "
            f"here an Agent is needed, or a plain function that returns one"
        )
    return _of_type(made, (wanted,), target)


def _from_factory(found: Any, wanted: tuple[type, ...], target: str) -> Any:
    """What a function returns; anything else, and what is wanted, as it is."""
    if isinstance(found, wanted) or not callable(found):
        return found
    try:
        return found()
    except Exception as error:
        raise _fault(f"{target!r} cannot be made", error) from error


def _fault(what: str, error: Exception) -> Exception:
    """An error of the user's own code, with the line of the user's that it came from."""
    if isinstance(error, ConfigError):
        return error
    lines = [frame for frame in extract_tb(error.__traceback__) if _is_the_users(Path(frame.filename))]
    where = f" ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else ""
    return ConfigError(f"{what}: {type(error).__name__}: {error}{where}")


def _is_the_users(file: Path) -> bool:
    """Whether somebody wrote the file here: it belongs to no installed package, and not to Python."""
    installed = [Path(get_paths()[name]) for name in ("stdlib", "purelib", "platlib")]
    return file.is_file() and not any(
        file.resolve().is_relative_to(folder) for folder in [_PACKAGE, *installed]
    )


def _named(target: str) -> Any:
    where, _, name = target.rpartition(":")
    if not where:
        raise ConfigError(f"{target!r} names nothing; write file.py:NAME or package.module:NAME")
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
        raise _fault(f"{name} cannot be loaded", error) from error
    except Exception as error:
        raise _fault(f"{name} cannot be loaded", error) from error


def _module_from(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"wesichain_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _fault(f"{path} cannot be loaded", error) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module
