"""Values, protocols and events of agents: what an application, a tool or a model client is written with.

What only the other rooms share is in `wesichain.core.internal`.
"""

from typing import TYPE_CHECKING

from .codec import JsonObject, JsonValue, from_json, to_json
from .content import Audio, Content, Document, Image, Part, Text
from .events import (
    AdviceShown,
    AgentEvent,
    ContentOmitted,
    ContextReduced,
    Decided,
    Event,
    HandedOff,
    ModelResponded,
    OutputDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
    ToolProgress,
    ToolsOffered,
)
from .lazy_imports import lazy_getattr
from .messages import (
    Citation,
    FinishReason,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    StreamItem,
    TextChunk,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
)
from .protocols import (
    Advice,
    Adviser,
    CompletionLlm,
    EventSink,
    LlmTraits,
    Strategy,
    StrategySource,
    StreamingLlm,
    ToolCallingLlm,
)
from .scratchpad import Action, ErrorStep, FinalAnswer, Observation, ReActStep, Thought
from .settings import Caching, ModelSettings, Reasoning
from .spending import Usage
from .waiting import Clock

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
            *(f"wesichain.{room}" for room in ("agent", "policy", "context", "graph")),
            "wesichain.core.internal",
        ),
    )

__all__ = [
    "Action",
    "Advice",
    "AdviceShown",
    "Adviser",
    "AgentEvent",
    "Audio",
    "Caching",
    "Citation",
    "Clock",
    "CompletionLlm",
    "Content",
    "ContentOmitted",
    "ContextReduced",
    "Decided",
    "Document",
    "ErrorStep",
    "Event",
    "EventSink",
    "FinalAnswer",
    "FinishReason",
    "HandedOff",
    "HasFinalOutput",
    "HasUserInput",
    "Image",
    "JsonObject",
    "JsonValue",
    "LlmRequest",
    "LlmResponse",
    "LlmTraits",
    "Message",
    "ModelResponded",
    "ModelSettings",
    "Observation",
    "OutputDelta",
    "Part",
    "PromptTemplate",
    "ReActState",
    "ReActStep",
    "Reasoning",
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
    "StreamItem",
    "StreamingLlm",
    "Text",
    "TextChunk",
    "TextDelta",
    "Thought",
    "ToolCall",
    "ToolCallChunk",
    "ToolCallingLlm",
    "ToolCompleted",
    "ToolDispatched",
    "ToolProgress",
    "ToolSpec",
    "ToolsOffered",
    "Usage",
    "from_json",
    "to_json",
]
