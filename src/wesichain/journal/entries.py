"""The bodies of entries, one class for each kind. The classes and their fields are stored names.

begin          Begin       a run starts, with everything that it starts with
go K           Go          a process begins to work on the run
offer N        Offer       the tools that functions returned for step N
view N         View        what the context views left out of the requests from step N on
ask N          Reply       the reply to request N, or its error
model N I      ModelCall   a model call that a middleware made for request N
decide N [ID] A  Decide    what the policy decided about an error
limit N [ID]   Limit       a limit that refused a model call, or a tool call
check N I      Check       the answer after its checks, or its refusal
rule N ID      Rule        what an approval rule returned
call N ID A ?  Intent      a `once` call begins
call N ID A    Result      the value of a call, or its error
tool N ID A    Result      the value of a call before its middleware
asked T        Asked       a question to a person
answer T       Answer      the answer, or that its time is over
say I          Say         something that entered from outside: a message, a signal
heard N        Heard       the messages that step N took
heard NAME K   Heard       the signal that the K-th `receive(NAME)` took
hand N         Hand        a handoff to another agent
perform NAME ? Intent      a `once` step of a function begins
perform NAME   Performed   the value of a step of a function, or its error
retry NAME A   Performed   an attempt at such a step that failed and was followed by another
sleep NAME     Sleep       until when a function sleeps
woke NAME      Woke        that it slept until then
input K        Input       the input of a turn on a graph's thread
visit S NODE   Visit       what a node of a graph wrote
state S        State       the state of a graph after a super-step, and the nodes to run next
stop I         Stop        a person or a program asked the run to stop
left K         Left        where work on the run ended, and why
end            End         the outcome
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

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


class Fault(Value):
    """An error: the exception, and behind it those that it was raised from."""

    chain: tuple[Raised, ...]

    @property
    def message(self) -> str:
        return self.chain[0].message

    @property
    def error(self) -> Raised:
        return self.chain[0]

    @property
    def cause(self) -> Raised | None:
        return self.chain[1] if len(self.chain) > 1 else None


class Begin(Value, omit_defaults=True):
    """A run starts.

    `program` is the name of the agent, function or graph; `fingerprint` identifies its options. `messages`
    are those before the task: the instructions and the history. `instructions` are set if a function or the
    caller gave them. `prices` are those that were looked up for a limited cost. `values` are the arguments
    of a function, or the caller's state. `counted` are the steps that a state brings along.
    """

    __always__: ClassVar[tuple[str, ...]] = ("format", "program", "kind_of")

    format: int
    program: str
    kind_of: str  # "agent", "function" or "graph"
    fingerprint: Any = ""  # in memory the program itself, which has it
    run_id: str = ""  # of a run inside a call
    task: str = ""
    parts: tuple[Part, ...] = ()
    messages: tuple[Message, ...] = ()
    steps: JsonValue = None  # the scratchpad of a state that the run continues
    instructions: str = ""
    advice: Advice | None = None
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings | None = None
    budget: Any = None
    values: JsonValue = None
    counted: int = 0
    earlier: int = 0
    own_model: str = ""  # the model that was given for this run
    by: str = ""  # who asked for the run

    @property
    def program_fingerprint(self) -> str:
        """The fingerprint of the program that began the run."""
        given = self.fingerprint
        found: str = given if isinstance(given, str) else given.fingerprint
        return found


class Go(Value, omit_defaults=True):
    """A process begins to work on the run. `voids` are names of entries that are made again."""

    __always__: ClassVar[tuple[str, ...]] = ("writer",)

    writer: str
    program: str = ""
    host: str = ""
    model: str = ""
    has_options: bool = False  # this leg has another model, or other settings
    voids: tuple[str, ...] = ()


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
    called the model more than once; its calls are paid then, in their own entries. `unpriced` is the model if
    its price is not known.
    """

    reply: LlmResponse | None = None
    fault: Fault | None = None
    ms: float = 0.0
    cost: float = 0.0
    free: bool = False
    is_paid: bool = False
    unpriced: str = ""
    step: int = 0
    flaw: str = ""  # what is wrong with an object that is no reply
    noted: bool = False  # the request ended with a note that is not part of the messages of the run
    request: Any = ""  # in memory the request itself


class ModelCall(Value, omit_defaults=True):
    """A model call of a middleware. The loop receives the reply that the middleware returns, as `ask`."""

    reply: LlmResponse | None = None
    fault: Fault | None = None
    step: int = 0
    ms: float = 0.0
    cost: float = 0.0
    unpriced: str = ""


class Decide(Value, omit_defaults=True):
    """The policy's decision about an error, and what is returned to the model.

    `counts` are the classes under which the error is counted. `shared` marks an error that shares the
    decision on another one of the same reply.
    """

    __always__: ClassVar[tuple[str, ...]] = ("fault", "decision")

    fault: Fault
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
    raised: Fault | None = None  # of a policy that broke its contract


class Limit(Value, omit_defaults=True):
    """A limit that refused an act. `owner` is the place of the run whose limit it is."""

    __always__: ClassVar[tuple[str, ...]] = ("resource", "limit", "used")

    resource: str
    limit: float
    used: float
    owner: str = ""
    steps: int = 0  # spent by a request that was cut off


class Check(Value, omit_defaults=True):
    """The text of an answer after its checks, or why it was refused."""

    text: str = ""
    fault: Fault | None = None


class Rule(Value):
    """What a rule returned about a call: whether a person has to approve it."""

    asks: bool


class Intent(Value, omit_defaults=True):
    """An act that may be done once begins."""

    tool: str = ""
    unique: str = ""


class Result(Value, omit_defaults=True):
    """The value of a call, or its error."""

    tool: str = ""
    value: JsonValue = None
    parts: tuple[Part, ...] = ()
    finish: bool = False
    ms: float = 0.0
    fault: Fault | None = None
    provided: bool = False  # by a person or another program

    @property
    def essence(self) -> tuple[Any, ...]:
        """What a replay compares."""
        return self.value, self.finish, None if self.fault is None else self.fault.message


class Asked(Value, omit_defaults=True):
    """A question to a person: whether a call may run, what its result is, or what running code asks.

    `name` is that of a question which `ask` asked: its run goes on when the question expires. `question` and
    `expects`, the JSON schema of the answer, are set for what running code asks.
    """

    token: str
    name: str = ""
    question: JsonValue = None
    expects: JsonValue = None
    call: ToolCall | None = None
    step: int = 0
    agents: tuple[str, ...] = ()  # the names of the agents above the call, outermost first
    external: bool = False
    parameters: JsonValue = None
    expires_at: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on by itself when the question has expired."""
        return bool(self.name) and self.expires_at is not None


class Answer(Value, omit_defaults=True):
    """An answer: a decision on a call, or the value that a function asked for.

    `expired` says that nobody answered in time.
    """

    decision: Decision | None = None
    value: JsonValue = None
    by: str = ""
    expired: bool = False

    @property
    def given(self) -> JsonValue:
        """The value that answers a question."""
        return self.decision.value if isinstance(self.decision, Provide) else self.value


class Say(Value, omit_defaults=True):
    """Something that entered from outside: a message to a run, or a signal with a name and a value."""

    signal: str = ""
    value: JsonValue = None
    text: str = ""
    parts: tuple[Part, ...] = ()
    when: str = "next"
    place: str = ""
    by: str = ""
    call: str = ""  # the background call whose result this is


class Heard(Value, omit_defaults=True):
    """The names of the entries from outside that a step, or a `receive`, took."""

    names: tuple[str, ...] = ()
    expired: bool = False


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


class Performed(Value, omit_defaults=True):
    """The value of a step of a function, or its error."""

    value: JsonValue = None
    fault: Fault | None = None
    ms: float = 0.0


class Sleep(Value):
    """Until when a function sleeps, in seconds since the epoch by the store's clock."""

    until: float


class Woke(Value):
    """That the moment has come."""

    at: float


class Input(Value, omit_defaults=True):
    """The input of a turn on a graph's thread."""

    value: JsonValue = None
    options: JsonValue = None


class Visit(Value, omit_defaults=True):
    """What a node wrote, or its error."""

    writes: JsonValue = None
    goto: JsonValue = None
    fault: Fault | None = None
    ms: float = 0.0
    attempt: int = 1


class State(Value, omit_defaults=True):
    """The keys that changed in a super-step, or the whole state, and the nodes that run next."""

    values: JsonValue = None
    whole: bool = False
    tasks: JsonValue = None
    detail: JsonValue = None


class Stop(Value, omit_defaults=True):
    """A request to stop the run."""

    reason: str = "stopped"
    by: str = ""


class Left(Value, omit_defaults=True):
    """Where work on the run ended.

    `waits` is what the run waits for: kind and name, with a token, a question or a moment. `inside` are calls
    that are entered again: runs inside them go on.
    """

    __always__: ClassVar[tuple[str, ...]] = ("reason",)

    reason: str
    waits: tuple[Mapping[str, JsonValue], ...] = ()
    inside: tuple[str, ...] = ()
    spent: Spent | None = None
    follows: bool = False
    messages: tuple[Message, ...] = ()  # those that no request had
    step: int = 0


class End(Value, omit_defaults=True):
    """The outcome of a run."""

    __always__: ClassVar[tuple[str, ...]] = ("kind_of",)

    kind_of: str  # "completed" or "failed"
    value: JsonValue = None
    text: str = ""
    stopped_by: str | None = None
    fault: Fault | None = None
    follows: bool = False  # the last reply and its results come before `messages`
    messages: tuple[Message, ...] = ()  # those that no request had
    step: int = 0
    agent: str = ""
    spent: Spent | None = None
    limit_of: str | None = None  # the place of the run whose limit ended it
    place: str = ""  # of the run inside it whose outcome this is, where a middleware ran the task again

    @property
    def essence(self) -> tuple[Any, ...]:
        """What a replay compares."""
        fault = None if self.fault is None else (self.fault.error.name, self.fault.message)
        return self.text, self.stopped_by, fault


Body: TypeAlias = Any  # one of the classes above; the kind in the name says which

BODIES: Mapping[str, type[Value]] = {
    "begin": Begin,
    "go": Go,
    "offer": Offer,
    "view": View,
    "ask": Reply,
    "model": ModelCall,
    "decide": Decide,
    "limit": Limit,
    "check": Check,
    "rule": Rule,
    "call": Result,
    "tool": Result,
    "asked": Asked,
    "answer": Answer,
    "say": Say,
    "heard": Heard,
    "hand": Hand,
    "perform": Performed,
    "retry": Performed,
    "sleep": Sleep,
    "woke": Woke,
    "input": Input,
    "visit": Visit,
    "state": State,
    "stop": Stop,
    "left": Left,
    "end": End,
}


def body_type(kind: str, rest: str) -> type[Value] | None:
    """The class of the body of an entry; None for a kind that this version does not know."""
    if kind in ("call", "perform") and " ?" in rest:
        return Intent
    return BODIES.get(kind)
