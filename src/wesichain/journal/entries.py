"""The bodies of entries, one class for each kind. The classes and their fields are stored names.

begin            Begin      a run starts: its function and arguments
go K             Go         a process begins to work on the run
perform NAME ?   Intent     a step with `effect="once"` begins
perform NAME     Performed  the value of a step, or its error
retry NAME A     Performed  an attempt at a step that failed and was followed by another
asked T          Asked      a question to a person
answer T         Answer     the answer, or that its time is over
say I            Say        a signal that entered from outside
heard NAME K     Received      the signal that the K-th `receive(NAME)` took
wait NAME K      Sleep      until when the K-th `receive(NAME)` waits
sleep NAME       Sleep      until when a function sleeps
woke NAME        Woke       that it slept until then
stop I           Stop       somebody asked the run to stop
left K           Left       where work on the run ended, and why
end              End        the value of the function, or its error
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from wesichain.core import JsonValue
from wesichain.core.internal import Value, field

FORMAT = 1


class Raised(Value, omit_defaults=True):
    """One exception: the names of its class and of the bases, its text, and its fields.

    `classes` are written as `module:QualifiedName`, without `Exception` and above. `fields` are the
    attributes that JSON can hold.
    """

    __always__: ClassVar[tuple[str, ...]] = ("classes", "message")

    classes: tuple[str, ...]
    message: str
    fields: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def name(self) -> str:
        """The name of the class, without its module and outer classes."""
        return self.classes[0].rpartition(":")[2].rpartition(".")[2]


class RecordedError(Value):
    """An error: the exception, and behind it those that it was raised from."""

    chain: tuple[Raised, ...]

    @property
    def error(self) -> Raised:
        return self.chain[0]

    @property
    def message(self) -> str:
        return self.chain[0].message


class Begin(Value, omit_defaults=True):
    """A run starts. `program` is the qualified name of the function, `task` its arguments in one line."""

    __always__: ClassVar[tuple[str, ...]] = ("format", "program")

    format: int
    program: str
    args: tuple[JsonValue, ...] = ()
    kwargs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    task: str = ""
    by: str = ""  # who asked for the run


class Go(Value, omit_defaults=True):
    """A process begins to work on the run; without a writer, the run may go on.

    `voids` are the names of entries that are made again.
    """

    __always__: ClassVar[tuple[str, ...]] = ("writer",)

    writer: str
    voids: tuple[str, ...] = ()
    by: str = ""


class Intent(Value, omit_defaults=True):
    """A step that may be done once begins. `unique` names it in all runs of the store."""

    unique: str = ""


class Performed(Value, omit_defaults=True):
    """The value of a step, or its error."""

    value: JsonValue = None
    fault: RecordedError | None = None
    ms: float = 0.0
    of: str = ""  # the run that has done it, where another one did


class Asked(Value, omit_defaults=True):
    """A question to a person. `expects` is the JSON schema of the answer."""

    __always__: ClassVar[tuple[str, ...]] = ("token", "name", "question")

    token: str
    name: str
    question: str
    expects: JsonValue = None
    expires_at: float | None = None


class Answer(Value, omit_defaults=True):
    """An answer to a question. `expired` says that nobody answered in time."""

    value: JsonValue = None
    by: str = ""
    expired: bool = False


class Say(Value, omit_defaults=True):
    """A signal that entered from outside."""

    signal: str
    value: JsonValue = None
    by: str = ""


class Received(Value, omit_defaults=True):
    """The name of the entry with the signal that a `receive` took; `expired` says that none came in time."""

    name: str = ""
    expired: bool = False


class Sleep(Value):
    """Until when a function waits, in seconds since the epoch by the store's clock."""

    until: float


class Woke(Value):
    """That the moment has come."""

    at: float


class Stop(Value, omit_defaults=True):
    """A request to stop the run."""

    reason: str = "stopped"
    by: str = ""


class Left(Value, omit_defaults=True):
    """Where work on the run ended. `waits` is what it waits for; without one, it was stopped."""

    __always__: ClassVar[tuple[str, ...]] = ("reason",)

    reason: str
    waits: tuple[Mapping[str, JsonValue], ...] = ()
    unclaimed: tuple[str, ...] = ()


class End(Value, omit_defaults=True):
    """The value of the function, or its error. `unclaimed` are entries that it did not ask for again."""

    value: JsonValue = None
    fault: RecordedError | None = None
    unclaimed: tuple[str, ...] = ()


BODIES: Mapping[str, type[Value]] = {
    "begin": Begin,
    "go": Go,
    "perform": Performed,
    "retry": Performed,
    "asked": Asked,
    "answer": Answer,
    "say": Say,
    "heard": Received,
    "wait": Sleep,
    "sleep": Sleep,
    "woke": Woke,
    "stop": Stop,
    "left": Left,
    "end": End,
}


def body_class(kind: str, rest: str) -> type[Value] | None:
    """The class of the body of an entry; None for a kind that this version does not know."""
    return Intent if kind == "perform" and rest.endswith(" ?") else BODIES.get(kind)
