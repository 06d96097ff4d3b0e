"""The fingerprint of an agent: what it sends to its model, and what decides in its runs, by name."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from wesichain._version import __version__
from wesichain.core import to_json


def fingerprint_of(runtime: Any) -> str:
    """The fingerprint of an agent. Two programs with the same one are taken for the same program.

    The code of tools and functions is not part of it, only their names and schemas.
    """
    settings = runtime.settings
    output = settings.judge.output
    tools = [[tool.spec, tool.effect, bool(tool.approval), tool.external] for tool in runtime.registry]
    described = [
        __version__,
        settings.name,
        settings.model,
        runtime.instructions,
        tools,
        [type(source).__name__ for source in runtime.registry.sources],
        [output.schema, list(output.final_tools), output.prompt],
        settings.model_settings,
        repr(settings.policy),
        settings.on_limit,
        settings.exclude_after,
        repr(settings.loop_guard),
        [_name(check) for check, _ in (settings.checks.functions if settings.checks else ())],
        [type(one).__name__ for one in settings.middleware],
        [repr(view) for view in settings.context],
        sorted(runtime.transfers),
    ]
    text = to_json(described)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
