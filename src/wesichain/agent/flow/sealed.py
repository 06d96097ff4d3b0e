"""Sealed text: handles in place of outside text, and the tool that asks a model without tools about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict, override

from wesichain.agent.phases import Completed, Failed, Interrupted, Outcome
from wesichain.core import Message, Role
from wesichain.core.internal import text_of
from wesichain.errors import RunInterruptedError, ToolError
from wesichain.tools import ToolContext, TypedTool

from .flow import READ_SEALED

if TYPE_CHECKING:
    from .text_origins import SealedText

_ADDRESS = re.compile(r"[^@\s,;<>()]{1,64}@[^@\s,;<>()]{1,255}")
_ANSWERS = {
    "bool": "true or false",
    "number": "one number, in digits",
    "date": "one date or time, as YYYY-MM-DD or YYYY-MM-DDTHH:MM",
    "email": "one mail address",
}


class _Ask(TypedDict):
    handle: Annotated[str, Field(description="The handle of the text, such as $read_page_1.")]
    question: Annotated[str, Field(description="The question, about this text alone.")]
    as_type: Annotated[
        Literal["bool", "number", "date", "email"] | list[str],
        Field(description="The type of the answer, or a list of the possible answers."),
    ]


class ReadSealed(TypedTool[_Ask, Any]):
    """The tool `read_sealed`. The model that it asks has no tools, and only a typed answer comes back."""

    name = READ_SEALED
    description = (
        "Ask a question about a sealed text, which stands behind a handle such as $read_page_1. "
        "A handle can also be passed to tools in place of its text."
    )
    is_agent = True
    effect = "idempotent"

    def __init__(self, reader: Any) -> None:
        """`reader`: the runtime of the model that reads; None for the model of the run."""
        self._reader = reader

    @override
    async def run(self, args: _Ask, ctx: ToolContext) -> Any:
        link: Any = ctx.link
        rule: Any = getattr(getattr(link, "run", None), "flow", None)
        sealed: Mapping[str, SealedText] = {} if rule is None else rule.seen.sealed
        held = sealed.get(args["handle"])
        if held is None:
            known = ", ".join(sealed) or "none"
            raise ToolError(f"there is no sealed text {args['handle']!r}; the handles are {known}")
        kind = args["as_type"]
        expected = _ANSWERS[kind] if isinstance(kind, str) else f"one of {json.dumps(kind)}"
        asked = f"{args['question']}\n\nAnswer with {expected}, and nothing else."
        task = f"{asked}\n\n<text>\n{text_of(held.value)}\n</text>"
        return _answer(await self._ask(task, ctx), kind)

    async def _ask(self, task: str, ctx: ToolContext) -> str:
        link: Any = ctx.link
        if self._reader is None:
            text, _ = await link.sample([Message(Role.USER, task)], ctx)
            return str(text)
        outcome: Outcome[str] = await self._reader.run(task, parent=ctx)
        match outcome:
            case Completed(text=text):
                return text
            case Failed(error=error):
                raise ToolError(f"the text could not be read: {error}") from error
            case Interrupted(reason=reason):
                raise RunInterruptedError(f"reading was interrupted: {reason}", outcome)


def _answer(text: str, kind: str | Sequence[str]) -> Any:
    """The typed answer in a reply. Anything else is refused: a reply is text of strangers."""
    word = text.strip().strip("\"'`.").strip()
    if not isinstance(kind, str):
        if word in kind:
            return word
        raise ToolError(f"the answer is none of {json.dumps([*kind])}")
    try:
        match kind:
            case "bool" if word.lower() in ("true", "false", "yes", "no"):
                return word.lower() in ("true", "yes")
            case "number":
                return int(word) if re.fullmatch(r"-?\d{1,15}", word) else _finite(word.replace(",", ""))
            case "date":
                datetime.fromisoformat(word)
                return word
            case "email" if _ADDRESS.fullmatch(word):
                return word
            case _:
                pass
    except ValueError:
        pass
    raise ToolError(f"the text has no answer of type {kind!r} to this question")


def _finite(word: str) -> float:
    if not re.fullmatch(r"-?\d{1,15}(?:\.\d{1,9})?", word):
        raise ValueError(word)
    return float(word)
