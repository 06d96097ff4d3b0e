"""The faults of the server, and the tools of the runs."""

from __future__ import annotations

from dataclasses import dataclass

MANY = 100  # requests after which a run counts as without end: two are enough for the question
BEST = "+best"  # behind the name of a contestant: its row with its best documented setting
GOOD = "All is well."  # what the model says once the trouble is over
GAVE_UP = "I could not finish."  # what it says when it is asked for an answer amid the trouble


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. Unless `forever`, it occurs once, and the model then answers well."""

    name: str
    title: str
    tool: str = "add"
    arguments: str = '{"a": 1, "b": 2}'  # $n stands for the number of the request
    status: int = 200
    forever: bool = False
    tool_timeout: float | None = None  # to be set where the framework has such a setting

    @property
    def silence(self) -> float:
        """Seconds without a request after which a run counts as without end; a retry may be far off."""
        return 30.0 if self.status == 200 else 300.0


FAULTS = (
    Fault("unknown-once", "unknown tool, once", tool="subtract"),
    Fault("unknown-always", "unknown tool, always", tool="subtract", forever=True),
    Fault("json-once", "broken JSON arguments, once", arguments='{"a": 1, "b": '),
    Fault("json-always", "broken JSON arguments, always", arguments='{"a": 1, "b": ', forever=True),
    Fault("raises-once", "tool raises, once", tool="explode", arguments="{}"),
    Fault("raises-always", "tool raises, always", tool="explode", arguments="{}", forever=True),
    Fault("endless", "endless tool calls", arguments='{"a": $n, "b": 2}', forever=True),
    Fault("slow", "tool takes a minute", tool="slow", arguments="{}", tool_timeout=1.0),
    Fault("429-once", "429, once", status=429),
    Fault("429-always", "429, always", status=429, forever=True),
    Fault("500-once", "500, once", status=500),
    Fault("500-always", "500, always", status=500, forever=True),
)
