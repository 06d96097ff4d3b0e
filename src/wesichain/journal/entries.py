"""The bodies of entries, one class for each kind. The classes and their fields are stored names.

begin            Begin      a run starts, with everything that it starts with
go K             Go         a process begins to work on the run
offer N          Offer      the tools that functions returned for step N
view N I         View       what a context view left out of the requests from step N on
ask N            Reply      the reply to request N, or its error
model N I        ModelCall  a model call that a middleware made for request N
decide N [ID] A  Decide     what the policy decided about an error
debit N          Debit      what a model call was charged to shared limits, at most
limit N [ID A]   Limit      a limit that refused a model call, or a tool call
check N I        Check      the answer after its checks, or its refusal
rule N ID        Rule       what an approval rule returned
call N ID A ?    Intent     a `once` call begins
call N ID A      Result     the value of a call, or its error
tool N ID A      Result     the value of a call before its middleware
hand N           Hand       a handoff to another agent
perform NAME ?   Intent     a step with `effect="once"` begins
perform NAME     Performed  the value of a step, or its error
retry NAME A     Performed  an attempt at a step that failed and was followed by another
asked T          Asked      a question to a person
answer T         Answer     the answer, or that its time is over
say I            Say        what entered from outside: a message, or a signal
heard N          Heard      the messages that step N took
heard NAME K     Received   the signal that the K-th `receive(NAME)` took
wait NAME K      Sleep      until when the K-th `receive(NAME)` waits
sleep NAME       Sleep      until when a function sleeps
woke NAME        Woke       that it slept until then
stop I           Stop       somebody asked the run to stop
left K           Left       where work on the run ended, and why
closing N        Closing    an agent is about to end after step N, and takes no messages any more
end              End        the outcome
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from wesichain.core import JsonValue, LlmResponse, Message, ModelSettings, Part, ToolCall, ToolSpec, Usage
from wesichain.core.internal import NO_USAGE, Advice, Cut, Decision, Provide, Spent, Value, field

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
    def cause(self) -> Raised | None:
        return self.chain[1] if len(self.chain) > 1 else None

    @property
    def message(self) -> str:
        return self.chain[0].message


# --- the run -----------------------------------------------------------------------------------------


class Begin(Value, omit_defaults=True):
    """A run starts.

    `program` is the name of the agent or graph, or the qualified name of the function; `program_kind` says
    which. `task` is the text of the task, or the arguments of a function in one line. A function has `args`
    and `kwargs`. An agent has the other fields: `fingerprint` identifies its options, `messages` are those
    before the task (the instructions and the history), `instructions` are set if a function or the caller
    gave them, `state` is the caller's state, `counted` are the steps that it brings along.
    """

    __always__: ClassVar[tuple[str, ...]] = ("format", "program")

    format: int
    program: str
    program_kind: str = "function"  # or "agent", "graph"
    task: str = ""
    by: str = ""  # who asked for the run
    args: tuple[JsonValue, ...] = ()
    kwargs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    budget: Any = None
    run_id: str = ""  # of a run inside a call
    fingerprint: Any = ""  # in memory the program itself, which has it
    parts: tuple[Part, ...] = ()
    messages: tuple[Message, ...] = ()
    steps: JsonValue = None  # the scratchpad of a state that the run continues
    instructions: str = ""
    advice: Advice | None = None
    model: str = ""
    own_model: str = ""  # the model that was given for this run
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings | None = None
    given: str = ""  # the text of the task, where middleware has passed on another one
    typed: bool = False  # the text of the answer is the JSON of a value
    wrapped: bool = False  # middleware is around the run, and may return another outcome than the log has
    state: JsonValue = None
    counted: int = 0
    earlier: int = 0

    @property
    def program_fingerprint(self) -> str:
        """The fingerprint of the program that began the run."""
        given = self.fingerprint
        found: str = given if isinstance(given, str) else given.fingerprint
        return found


class Go(Value, omit_defaults=True):
    """A process begins to work on the run; without a writer, the run may go on.

    `voids` are the names of entries that are made again. `own_model`, `settings` and `budget` are set if they
    were given for this leg of the work: they hold for later ones too.
    """

    __always__: ClassVar[tuple[str, ...]] = ("writer",)

    writer: str
    program: str = ""
    model: str = ""
    own_model: str = ""
    settings: ModelSettings | None = None
    budget: Any = None
    voids: tuple[str, ...] = ()
    by: str = ""


class Stop(Value, omit_defaults=True):
    """A request to stop the run."""

    reason: str = "stopped"
    by: str = ""


class Left(Value, omit_defaults=True):
    """Where work on the run ended. `waits` is what it waits for; without one, it was stopped.

    `inside` are the names of calls that are entered again, since something inside them waits or was stopped.
    An agent adds its spending, its last step, and the `messages` that no request had; `follows` says that
    the last reply and its results come before them.
    """

    __always__: ClassVar[tuple[str, ...]] = ("reason",)

    reason: str
    waits: tuple[Mapping[str, JsonValue], ...] = ()
    unclaimed: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    spent: Spent | None = None
    step: int = 0
    follows: bool = False
    messages: tuple[Message, ...] = ()


class Closing(Value):
    """An agent is about to end: no message is taken any more."""


class End(Value, omit_defaults=True):
    """The end of a run: the value of a function, the text of an agent's answer, or the error.

    `unclaimed` are entries that the program did not ask for again. For an agent, `messages` and `follows` are
    as in `Left`, `agent` is the name of the one that answered, where the run was handed over.
    """

    value: JsonValue = None
    fault: RecordedError | None = None
    unclaimed: tuple[str, ...] = ()
    text: str = ""
    stopped_by: str | None = None
    agent: str = ""
    spent: Spent | None = None
    step: int = 0
    follows: bool = False
    messages: tuple[Message, ...] = ()
    limit_of: str | None = None  # the place of the run whose limit ended it
    place: str = ""  # of the run inside it whose outcome this is, where a middleware ran the task again

    @property
    def essence(self) -> tuple[Any, ...]:
        """What a replay compares."""
        fault = None if self.fault is None else (self.fault.error.name, self.fault.message)
        return self.text, self.stopped_by, fault


# --- agents ------------------------------------------------------------------------------------------


class Offer(Value):
    """The tools that functions returned for a step. `external` are the names of those run elsewhere."""

    tools: tuple[ToolSpec, ...]
    external: tuple[str, ...] = ()


class View(Value, omit_defaults=True):
    """What one context view cut. If it called a model: its usage and cost, and the error, if it failed."""

    __always__: ClassVar[tuple[str, ...]] = ("view",)

    view: str
    cuts: tuple[Cut, ...] = ()
    cost: float = 0.0
    usage: Usage = NO_USAGE
    unpriced: str = ""
    trouble: str = ""


class Reply(Value, omit_defaults=True):
    """The reply to a request as the loop received it, or the error.

    `request` is the fingerprint of the request. `step` is the number of the last step, where a middleware
    called the model more than once; its calls are paid then, in their own entries. `unpriced` is the model
    if its price is not known.
    """

    reply: LlmResponse | None = None
    fault: RecordedError | None = None
    ms: float = 0.0
    cost: float = 0.0
    free: bool = False
    is_paid: bool = False
    unpriced: str = ""
    step: int = 0
    flaw: str = ""  # what is wrong with an object that is no reply
    noted: bool = False  # the request ended with a note that is not part of the messages of the run
    request: Any = ""  # in memory the request itself
    cut: bool = False  # by a message: the reply has what was estimated to be spent


class ModelCall(Value, omit_defaults=True):
    """A model call of a middleware. The loop receives the reply that the middleware returns, as `ask`."""

    reply: LlmResponse | None = None
    fault: RecordedError | None = None
    step: int = 0
    ms: float = 0.0
    cost: float = 0.0
    unpriced: str = ""


class Decide(Value, omit_defaults=True):
    """The policy's decision about an error, and what is returned to the model.

    `shared` marks an error that shares the decision on another one of the same reply.
    """

    __always__: ClassVar[tuple[str, ...]] = ("fault", "decision")

    fault: RecordedError
    decision: str
    delay: float = 0.0
    free: bool = False
    text: str = ""
    again: bool = False  # the request is sent, or the call is run, again
    tool: str = ""
    ms: float = 0.0
    steps: int = 0  # that a retry of the call spends
    reprompt: bool = False  # counted as a reprompt for the class of the error
    shared: bool = False
    is_rejection: bool = False  # of a call that cannot be run
    raised: RecordedError | None = None  # of a policy that broke its contract


class Limit(Value, omit_defaults=True):
    """A limit that refused an act. `owner` is the place of the run whose limit it is."""

    __always__: ClassVar[tuple[str, ...]] = ("resource", "limit", "used")

    resource: str
    limit: float
    used: float
    owner: str = ""
    steps: int = 0  # spent by a request that was cut off
    step: int = 0  # the number of the last step, if a request was cut off


class Debit(Value):
    """What a model call may cost at most, by resource: it was charged to the shared limits of its run."""

    most: Mapping[str, float]


class Check(Value, omit_defaults=True):
    """The text of an answer after its checks, or why it was refused."""

    text: str = ""
    fault: RecordedError | None = None


class Rule(Value, omit_defaults=True):
    """What a rule returned about a call: whether a person has to approve it, and why."""

    __always__: ClassVar[tuple[str, ...]] = ("asks",)

    asks: bool
    why: str = ""


class Result(Value, omit_defaults=True):
    """The value of a call, or its error."""

    tool: str = ""
    value: JsonValue = None
    parts: tuple[Part, ...] = ()
    finish: bool = False
    ms: float = 0.0
    fault: RecordedError | None = None
    provided: bool = False  # by a person or another program
    background: bool = False  # the call goes on beside the run, and its result comes as a message

    @property
    def essence(self) -> tuple[Any, ...]:
        """What a replay compares."""
        return self.value, self.finish, None if self.fault is None else self.fault.message


class Hand(Value, omit_defaults=True):
    """A handoff: the agent that takes over, and the messages that it begins with."""

    __always__: ClassVar[tuple[str, ...]] = ("source", "target")

    source: str
    target: str
    fingerprint: str = ""
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    messages: tuple[Message, ...] | None = None  # None: all messages so far, behind `system`
    system: str = ""
    task_at: int = 0
    instructions: str = ""
    advice: Advice | None = None
    follows: bool = False  # the last reply and its results come before `unsent`
    unsent: tuple[Message, ...] = ()  # the messages before the handoff that no request had


# --- steps, questions, and what enters from outside ----------------------------------------------------


class Intent(Value, omit_defaults=True):
    """An act that may be done once begins. `unique` names it in all runs of the store."""

    unique: str = ""
    tool: str = ""


class Performed(Value, omit_defaults=True):
    """The value of a step, or its error."""

    value: JsonValue = None
    fault: RecordedError | None = None
    ms: float = 0.0
    of: str = ""  # the run that has done it, where another one did


class Asked(Value, omit_defaults=True):
    """A question to a person.

    About a `call`: whether it may run, or what its result is (`external`). From running code: `question`,
    with the JSON schema of the answer (`expects`), under the `name` that it was given.
    """

    __always__: ClassVar[tuple[str, ...]] = ("token",)

    token: str
    name: str = ""
    question: str = ""
    expects: JsonValue = None
    expires_at: float | None = None
    call: ToolCall | None = None
    step: int = 0
    agents: tuple[str, ...] = ()  # the names of the agents above the call, outermost first
    external: bool = False
    parameters: JsonValue = None  # the JSON schema of the call's arguments
    why: str = ""  # the reason that a rule gave
    unknown: bool = False  # whether it is about a call whose outcome is not known

    @property
    def shown_name(self) -> str:
        """What the question is called in lists: the name it was given, or that of the tool."""
        return self.name or ("" if self.call is None else self.call.name)


class Answer(Value, omit_defaults=True):
    """An answer: a decision on a call, or the value that running code asked for.

    `expired` says that nobody answered in time.
    """

    value: JsonValue = None
    by: str = ""
    roles: tuple[str, ...] = ()  # of whoever answers
    expired: bool = False
    decision: Decision | None = None

    @property
    def given(self) -> JsonValue:
        """The value that answers a question."""
        return self.decision.value if isinstance(self.decision, Provide) else self.value


class Say(Value, omit_defaults=True):
    """What entered from outside: a signal with a name and a value, or a message to an agent."""

    signal: str = ""
    value: JsonValue = None
    by: str = ""
    text: str = ""
    parts: tuple[Part, ...] = ()
    when: str = ""  # "next", "idle" or "interrupt", for a message
    place: str = ""  # of the agent that a message is for
    call: str = ""  # the background call whose result this is


class Heard(Value):
    """The names of the entries with the messages that a step took."""

    names: tuple[str, ...]


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


BODIES: Mapping[str, type[Value]] = {
    "begin": Begin,
    "go": Go,
    "offer": Offer,
    "view": View,
    "ask": Reply,
    "model": ModelCall,
    "decide": Decide,
    "limit": Limit,
    "debit": Debit,
    "check": Check,
    "rule": Rule,
    "call": Result,
    "tool": Result,
    "hand": Hand,
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
    "closing": Closing,
    "end": End,
}


def body_class(kind: str, rest: str) -> type[Value] | None:
    """The class of the body of an entry; None for a kind that this version does not know."""
    if kind in ("call", "perform") and (rest.endswith(" ?") or rest.rpartition(" ")[2].startswith("?")):
        return Intent
    if kind == "heard" and rest.isdecimal():
        return Heard
    return BODIES.get(kind)
