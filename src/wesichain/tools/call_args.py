"""The arguments of a call, as rules of users read them."""

from __future__ import annotations

from typing import Any, cast

from wesichain.core.internal import is_object


class CallArgs(dict[str, Any]):
    """Arguments by name, which can be read as attributes too: `args["order"]` is `args.order`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the call has no argument {name!r}") from None

    @staticmethod
    def of(args: Any) -> Any:
        """The checked arguments of a call: those of a typed tool are an object already."""
        return CallArgs(cast("dict[str, Any]", args)) if is_object(args) else args
