"""Prose: a model may word what the reflector found better; what it is about it cannot change.

The model reads the task's intent, the section and the names of the tools, nothing that a tool returned.
What it writes is used only if it is one short sentence that names the tools in their order.
"""

from __future__ import annotations

import re
from dataclasses import replace

from wesichain.core import LlmRequest, Message, Role, ToolCallingLlm
from wesichain.errors import LlmError

from .entities import PlaybookBullet, Provenance, one_line
from .reflector import Reflection

_LONGEST = 240
_ASK = (
    "Rewrite the advice as one short sentence of the form 'For ... questions, call a first, then b.' "
    "Name every tool exactly as given and in the same order. Reply with the sentence alone."
)


class ProseWriter:
    """Rewords the proposals of a reflection with a model."""

    def __init__(self, llm: ToolCallingLlm) -> None:
        self._llm = llm
        self._model = str(getattr(llm, "model", "") or type(llm).__name__)

    async def reword(self, reflection: Reflection) -> Reflection:
        """The reflection with better words, marked as a model's; as it is where the model fails."""
        proposals = [await self._reword(bullet) for bullet in reflection.proposals]
        return replace(reflection, proposals=tuple(proposals))

    async def _reword(self, bullet: PlaybookBullet) -> PlaybookBullet:
        request = LlmRequest(self._model, (Message(Role.SYSTEM, _ASK), Message(Role.USER, bullet.content)))
        try:
            reply = await self._llm.complete(request)
        except LlmError:
            return bullet
        text = one_line(reply.content)
        if not _is_faithful(text, bullet):
            return bullet
        origin = bullet.provenance
        author = Provenance("model", origin.task, origin.reflection, self._model, origin.tool_set)
        return replace(bullet, id="", content=text, provenance=author)


def _is_faithful(text: str, bullet: PlaybookBullet) -> bool:
    """Short, and with the tools of the advice as words, in their order."""
    pattern = ".*".join(rf"(?<![\w.-]){re.escape(tool)}(?![\w-])" for tool in bullet.tool_sequence)
    return 0 < len(text) <= _LONGEST and re.search(pattern, text) is not None
