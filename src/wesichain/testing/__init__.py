"""For users' own tests: scripted models, a clock that can be set, and contract suites."""

from .checkpoints import CheckpointerContract
from .clock import FakeClock
from .contracts import ModelContract, SinkContract, ToolContract
from .models import FunctionLlm, ScriptedLlm, StreamingScriptedLlm, calls
from .recordings import assert_replays

__all__ = [
    "CheckpointerContract",
    "FakeClock",
    "FunctionLlm",
    "ModelContract",
    "ScriptedLlm",
    "SinkContract",
    "StreamingScriptedLlm",
    "ToolContract",
    "assert_replays",
    "calls",
]
