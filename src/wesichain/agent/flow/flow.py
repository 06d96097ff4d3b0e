"""Flow: the option of an agent that keeps outside text from deciding what it does."""

from __future__ import annotations

from typing import Any, Literal

from wesichain.core import ToolCallingLlm
from wesichain.core.internal import Value
from wesichain.errors import PolicyConfigError

READ_SEALED = "read_sealed"  # the tool that asks about sealed text


class Flow(Value):
    """Outside text moves nothing alone: `Agent(flow=Flow())`, for the run and all runs below it.

    The results of a tool with `trust="outside"`, and fields `Annotated[str, Outside]`, are outside text. Once
    a model has seen some, a value of a protected parameter has to stand in the words of a person, or in a
    result that can be trusted; for any other call a person is asked, who reads in `PendingCall.why` where
    each value comes from. `on_unknown="refuse"` returns the reason to the model instead.

    With `seal=True` the model never sees outside text: it gets a handle such as `$read_page_1`, which
    `read_sealed` answers questions about, and which may be the value of a parameter. `reader` is the model
    that answers these questions, without tools; by default, the one of the run.
    """

    on_unknown: Literal["ask", "refuse"] = "ask"
    seal: bool = False
    reader: ToolCallingLlm | None = None

    def __post_init__(self) -> None:
        reader: Any = self.reader
        if self.on_unknown not in ("ask", "refuse"):
            raise PolicyConfigError(f"Flow: on_unknown={self.on_unknown!r}; use 'ask' or 'refuse'")
        if reader is not None and not hasattr(reader, "complete"):
            raise PolicyConfigError(
                f"Flow: reader={reader!r:.80} is not a model; pass one with complete(request)"
            )
        if reader is not None and not self.seal:
            raise PolicyConfigError(
                "Flow: reader= answers questions about sealed text; set seal=True as well"
            )
