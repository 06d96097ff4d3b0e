"""Middleware: what stands around runs, model calls and tool calls; and guards, which let them pass or not."""

from .guards import InputGuard, OutputGuard, ToolGuard
from .middleware import CallModel, CallRun, CallTool, Middleware

__all__ = ["CallModel", "CallRun", "CallTool", "InputGuard", "Middleware", "OutputGuard", "ToolGuard"]
