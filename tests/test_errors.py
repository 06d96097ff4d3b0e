"""Errors: they go into another process and come back as they were, fields and all."""

from __future__ import annotations

import copy
import pickle

import pytest

from wesichain.errors import (
    BudgetExceededError,
    CodecError,
    ConflictingUpdateError,
    ConversationError,
    DuplicateToolError,
    InvalidModelActionError,
    InvalidToolCallResponseError,
    LlmTransportError,
    MissingDependencyError,
    ReplayMismatchError,
    RunFailedError,
    ToolCallFailedError,
    ToolError,
    ToolErrorKind,
    ToolTimeoutError,
    WesichainError,
)


@pytest.mark.parametrize(
    "error",
    [
        CodecError("not JSON"),
        DuplicateToolError("add"),
        MissingDependencyError("the OpenAI adapter", package="openai", extra="openai"),
        LlmTransportError("busy", retryable=True, retry_after=2.0),
        ToolError("gone", ToolErrorKind.NOT_FOUND),
        ToolTimeoutError("slow", tool_name="add", call_id="1", seconds=3.0, abandoned=True),
        InvalidModelActionError("bad", step_id=3, tool_name="add", received_args={"a": 1}),
        BudgetExceededError("spent", resource="tokens", limit=5, used=7),
        RunFailedError("failed", {"any": "outcome"}),
        ConversationError("the disk is full", {"any": "outcome"}),
        ConflictingUpdateError("key", ("a", "b")),
        ToolCallFailedError("add", "it broke", node="agent"),
        InvalidToolCallResponseError("no name"),
        ReplayMismatchError("differs", step_id=2, expected=1, actual=2),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives(error: WesichainError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
