"""Values, protocols and events of agents: what an application, a tool or a model client is written with.

Events that few programs name are in `wesichain.core.events`. What only the other rooms share is in
`wesichain.core.internal`.
"""

from typing import TYPE_CHECKING

from .codec import JsonValue, from_json, to_json
from .content import Audio, Content, Document, Image, Part, Text
from .events import (
    ContentOmitted,
    Event,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from .lazy_imports import lazy_getattr
from .messages import (
    Citation,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    TextChunk,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
)
from .protocols import (
    CompletionLlm,
    EventSink,
    Strategy,
    StrategySource,
    ToolCallingLlm,
)
from .scratchpad import Action, ErrorStep, FinalAnswer, Observation, ReActStep, Thought
from .settings import ModelSettings
from .spending import Usage

if TYPE_CHECKING:
    from .state import HasFinalOutput, HasUserInput, ReActState, ScratchpadState
    from .template import PromptTemplate
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".state": ("HasFinalOutput", "HasUserInput", "ReActState", "ScratchpadState"),
            ".template": ("PromptTemplate",),
        },
        renamed={"told_content": "content_as_text"},
        moved_to=(
            "wesichain",
            *(f"wesichain.{room}" for room in ("core.events", "agent", "llm", "policy", "context", "graph")),
            "wesichain.core.internal",
        ),
    )

__all__ = [
    "Action",
    "Audio",
    "Citation",
    "CompletionLlm",
    "Content",
    "ContentOmitted",
    "Document",
    "ErrorStep",
    "Event",
    "EventSink",
    "FinalAnswer",
    "HasFinalOutput",
    "HasUserInput",
    "Image",
    "JsonValue",
    "LlmRequest",
    "LlmResponse",
    "Message",
    "ModelResponded",
    "ModelSettings",
    "Observation",
    "Part",
    "PromptTemplate",
    "ReActState",
    "ReActStep",
    "Role",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunStarted",
    "ScratchpadState",
    "StepFailed",
    "StepStarted",
    "Strategy",
    "StrategySource",
    "Text",
    "TextChunk",
    "TextDelta",
    "Thought",
    "ToolCall",
    "ToolCallChunk",
    "ToolCallingLlm",
    "ToolCompleted",
    "ToolDispatched",
    "ToolSpec",
    "Usage",
    "from_json",
    "to_json",
]
