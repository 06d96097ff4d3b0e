"""For users' own tests: scripted models, a clock that can be set, and contract suites."""

from .checkpoints import CheckpointerContract
from .clock import FakeClock
from .contracts import ModelContract, SinkContract, ToolContract
from .conversations import ConversationsContract
from .logs import LogsContract
from .models import FunctionLlm, ScriptedLlm, StreamingScriptedLlm, calls
from .providers import Answer, ProviderContract, Served, Spoken, Wire
from .recordings import assert_replays

__all__ = [
    "Answer",
    "CheckpointerContract",
    "ConversationsContract",
    "FakeClock",
    "FunctionLlm",
    "LogsContract",
    "ModelContract",
    "ProviderContract",
    "ScriptedLlm",
    "Served",
    "SinkContract",
    "Spoken",
    "StreamingScriptedLlm",
    "ToolContract",
    "Wire",
    "assert_replays",
    "calls",
]
