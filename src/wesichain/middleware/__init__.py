"""Middleware around runs, model calls and tool calls, and guards, which check them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .middleware import CallModel, CallRun, CallTool, Middleware

if TYPE_CHECKING:
    from .guards import InputGuard, OutputGuard, ToolGuard
else:
    __getattr__ = lazy_getattr(__name__, {".guards": ("InputGuard", "OutputGuard", "ToolGuard")})

__all__ = ["CallModel", "CallRun", "CallTool", "InputGuard", "Middleware", "OutputGuard", "ToolGuard"]
