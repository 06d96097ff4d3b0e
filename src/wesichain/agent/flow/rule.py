"""The rule of a run: which calls wait for a person, and what the model sees of outside text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wesichain.agent.trail import Observed
from wesichain.core import ToolCall
from wesichain.core.internal import replace, text_of
from wesichain.tools import ToolSet
from wesichain.tools.internal import PreparedCall

from .call_reasons import question_about
from .flow import READ_SEALED, Flow
from .labelled_tools import LabelledTools, registries_of
from .sealed import ReadSealed
from .text_origins import TextOrigins, filled

if TYPE_CHECKING:
    from wesichain.agent.phases import Acting
    from wesichain.tools import ToolRegistry


class FlowRule:
    """Applies a `Flow` to one run. `above`: the rule of the run above, whose flow holds here too."""

    __slots__ = ("_reader", "flow", "seen")

    seen: TextOrigins

    def __init__(self, flow: Flow, runtime: Any, reader: ReadSealed | None, above: FlowRule | None) -> None:
        self.flow = flow
        self._reader = reader
        self.seen = TextOrigins(
            flow, LabelledTools(registries_of(runtime)), None if above is None else above.seen
        )

    @property
    def reader(self) -> ReadSealed | None:
        """The tool that reads sealed text, for the runs below."""
        return self._reader

    @property
    def refuses(self) -> bool:
        return self.flow.on_unknown == "refuse"

    def read(self, phase: Acting[Any]) -> None:
        """Read what the run has added, before its next calls."""
        self.seen.read(phase)

    def question(self, prepared: PreparedCall) -> str:
        """Why a person has to decide about a call; "" if nobody has to."""
        return question_about(prepared, self.seen)

    def filled(self, prepared: PreparedCall, registry: ToolRegistry) -> PreparedCall:
        """The call with sealed texts in place of their handles. The log keeps the handles."""
        if not self.seen.sealed or prepared.call.name == READ_SEALED or prepared.tool.is_agent:
            return prepared
        call = prepared.call
        args = filled(call.args, self.seen.sealed)
        if args == call.args:
            return prepared
        made = registry.prepare(ToolCall(call.id, call.name, args))
        return made if isinstance(made, PreparedCall) else prepared

    def sealed(self, calls: Sequence[ToolCall], observed: Sequence[Observed]) -> list[Observed]:
        """The results of a reply as the model gets them, with handles in place of outside text."""
        shown: list[Observed] = []
        count = len(self.seen.sealed)
        named = {call.id: call for call in calls}
        for one in observed:
            item, call = one, named.get(one.call_id or "")
            if call is not None and call.name != READ_SEALED:
                labels = self.seen.labels_of(call)
                value, handles = self.seen.seal(call.name, labels, item.value, count)
                if handles:
                    count += len(handles)
                    item = replace(item, text=text_of(value), parts=())
            shown.append(item)
        return shown

    def equipped(self, registry: ToolRegistry) -> ToolRegistry:
        """The tools of an agent, and the one that reads sealed text."""
        if self._reader is None or READ_SEALED in registry:
            return registry
        return registry.with_tools({READ_SEALED: ToolSet.of([self._reader]).build()})
