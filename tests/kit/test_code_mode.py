"""Code mode: a program over the tools, whose calls are calls of the run."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.warm import python
from wesichain import Agent, Budget, CancellationToken, Middleware, tool
from wesichain.agent import Completed, Failed, Interrupted
from wesichain.core import Role, ToolCall, ToolDispatched, from_json, to_json
from wesichain.core.internal import Approve, Refuse
from wesichain.errors import ConfigError, ToolError
from wesichain.kit import CodeMode, program
from wesichain.middleware import ToolGuard
from wesichain.testing import ScriptedLlm
from wesichain.tools import DynamicTools, JsonTool, ToolContext, ToolSet

MADE: list[str] = []


@tool(effect="pure")
def lookup(name: str) -> dict[str, int]:
    """Look a person up."""
    MADE.append(name)
    if name == "nobody":
        raise ToolError("there is nobody of this name")
    return {"age": len(name)}


@tool(effect="once")
def note(number: int) -> int:
    """Write a number down."""
    MADE.append(str(number))
    return number * 2


@tool(effect="once", approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    MADE.append(f"paid {amount}")
    return f"paid {amount}"


NOT_AWAITED = (
    '{"value":"done","note":"not made, because it was not awaited: lookup(). Write await before every call."}'
)
NO_JSON = "is not a JSON value; use texts, numbers, lists and dicts"
NO_RESULT = "the value of the last expression cannot be returned"


DEEP = "a = []\nfor _ in range(5_000):\n    a = [a]\n"


def _plain() -> None:
    """Do nothing."""


def coder(code: str, *tools: Any, limits: dict[str, Any] | None = None, **options: Any) -> Agent:
    llm = ScriptedLlm([ToolCall("r", "run_code", {"code": code}), "done"])
    return Agent(llm, capabilities=[CodeMode(tools or [lookup, note, pay], **(limits or {}))], **options)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


async def result_of(code: str, **limits: Any) -> str:
    """What the model is shown of a program's end."""
    outcome = await coder(code, limits=limits).outcome("go")
    assert isinstance(outcome, Completed), outcome
    return next(message.text for message in outcome.messages if message.role is Role.TOOL)


class TestPrograms:
    @pytest.mark.parametrize(
        ("code", "shown"),
        [
            pytest.param("1 + 1", "2", id="without-a-call"),
            pytest.param("x = await lookup(name='ann')\nx['age']", "3", id="a-call"),
            pytest.param(
                "import asyncio\nawait asyncio.gather(lookup(name='a'), lookup(name='bo'))",
                '[{"age":1},{"age":2}]',
                id="several-at-once",
            ),
            pytest.param(
                "[(await lookup(name=n))['age'] for n in ['a', 'bo'] if n]", "[1,2]", id="in-a-comprehension"
            ),
            pytest.param(
                "try:\n    await lookup(name='nobody')\nexcept RuntimeError as e:\n    x = str(e)\nx",
                "[TOOL ERROR] there is nobody of this name",
                id="a-failure-is-an-exception",
            ),
            pytest.param(
                "try:\n    await lookup(nam='a')\nexcept RuntimeError as e:\n    x = str(e)[:14]\nx",
                "[INVALID CALL]",
                id="wrong-arguments-are-an-exception",
            ),
            pytest.param(
                "try:\n    await lookup('a')\nexcept TypeError as e:\n    x = str(e)\nx",
                "lookup() takes only keyword arguments: await lookup(name=value)",
                id="arguments-without-a-name-are-an-exception",
            ),
            pytest.param("print('a', 1)\n{'k': (1, 2), 's': {3, 1}}", '{"value":{"k":[1,2],"s":[1,3]},"printed":"a 1\\n"}', id="what-was-printed"),
            pytest.param("async def twice(n):\n    return 2 * (await lookup(name=n))['age']\nawait twice('ann')", "6",
                         id="a-function-of-its-own"),
            pytest.param("f = lookup\nawait f(name='ann')", '{"age":3}', id="a-tool-as-a-value"),
            pytest.param("x = lookup(name='ann')\n'done'", NOT_AWAITED, id="a-call-without-await"),
        ],
    )  # fmt: skip
    async def test_the_value_of_the_last_expression_is_the_result(self, code: str, shown: str) -> None:
        assert await result_of(code) == shown

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            pytest.param("1 / 0", "ZeroDivisionError: division by zero", id="an-exception"),
            pytest.param("x = (", "SyntaxError: unexpected EOF while parsing", id="no-program"),
            pytest.param("await unknown(a=1)", "NameError: name 'unknown' is not defined", id="a-function-that-is-none"),
            pytest.param("unknown", "NameError: name 'unknown' is not defined", id="a-value-that-is-none"),
            pytest.param("await lookup(name=b'x')", f"TypeError: lookup(): bytes {NO_JSON}", id="bytes"),
            pytest.param("b'x'", f"{NO_RESULT}: bytes {NO_JSON}", id="no-json"),
            pytest.param("x" * 50_001, "the program has 50001 characters; write at most 50000", id="a-program-that-is-too-long"),
            pytest.param("{1: 2}", f"{NO_RESULT}: the key 1 of a dict is not a text", id="a-key-that-is-no-text"),
            pytest.param("'x' * 199_989", "the result has 200001 characters; return at most 200000", id="a-result-that-is-too-long"),
            pytest.param("await lookup(name=object())", "TypeError: cannot create 'object' instances", id="an-argument-that-is-no-json"),
            pytest.param(f"{DEEP}await lookup(name=a)", "TypeError: lookup(): the value nests deeper than 100 levels", id="an-argument-that-nests-too-deeply"),
            pytest.param(f"{DEEP}a", f"{NO_RESULT}: the value nests deeper than 100 levels", id="a-result-that-nests-too-deeply"),
            pytest.param("await lookup(name='nobody')", "there is nobody of this name", id="a-failure-that-it-does-not-catch"),
        ],
    )  # fmt: skip
    async def test_a_program_that_fails_is_a_failure_of_the_tool(self, code: str, words: str) -> None:
        text = await result_of(code)
        assert text.startswith("[TOOL ERROR] ")
        assert text.endswith(words)

    async def test_an_interpreter_that_does_not_answer_is_killed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(program, "_GRACE", -9.8)
        assert "the program was stopped: it took too long" in await result_of("while True:\n    pass")

    async def test_a_program_that_cannot_be_continued_is_stopped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(program, "_key")  # a mistake of ours, when the program makes its call
        async with asyncio.timeout(20):
            text = await result_of("await lookup(name='ann')")
        assert text.startswith("[TOOL ERROR] the program was stopped: ")
        assert text.endswith("name '_key' is not defined")

    async def test_a_program_that_nobody_waits_for_is_cancelled_at_once(self) -> None:
        run = asyncio.ensure_future(result_of("while True:\n    pass", seconds=1.0))
        await asyncio.sleep(0.3)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, 0.5)

    async def test_calls_spend_tool_calls_and_no_step(self) -> None:
        code = "for n in range(7):\n    await note(number=n)\n'ok'"
        outcome = await coder(
            code, budget=Budget(steps=2, tool_calls=8, cost=1.0, prices={"scripted": (0, 0)})
        ).outcome("go")
        assert isinstance(outcome, Completed)
        assert (outcome.spent.steps, outcome.spent.tool_calls) == (2, 8)
        assert outcome.cost == 0.0
        calls = [(e.scope, e.call.id) for e in outcome.events if isinstance(e, ToolDispatched)]
        assert len({*calls}) == 8

    async def test_the_budget_of_tool_calls_holds(self) -> None:
        code = "for n in range(9):\n    try:\n        await note(number=n)\n    except BaseException:\n        pass"
        outcome = await coder(code, budget=Budget(tool_calls=4)).outcome("go")
        assert isinstance(outcome, Failed)
        assert MADE == ["0", "1", "2"]

    async def test_calls_go_through_the_middleware_of_the_agent(self) -> None:
        class Watch(Middleware):
            seen: list[str] = []  # noqa: RUF012  # of one test
            models = 0

            async def wrap_tool(self, ctx: ToolContext, call: ToolCall, call_next: Any) -> Any:
                self.seen.append(f"{call.name} for {ctx.deps}")
                return await call_next(call)

            async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
                self.models += 1
                return await call_next(request)

        watch = Watch()
        await coder("await lookup(name='a')", middleware=[watch]).run("go", deps="ann")
        assert watch.seen == ["run_code for ann", "lookup for ann"]
        assert watch.models == 2

    def test_every_parameter_of_every_offered_tool_is_described(self) -> None:
        schema = {"type": "object", "properties": {f"field_{n}": {"type": "integer"} for n in range(100)}}
        registry = ToolSet.of([JsonTool("wide", "Wide.", schema, print), lookup, note]).build()
        registry.deprecate("note")
        _, *functions = CodeMode(registry).tools[0].description.split("\nawait ")
        assert functions[0].endswith("field_99: int = ...)  # Wide.")
        assert [text.partition("(")[0] for text in functions] == ["wide", "lookup"]

    @pytest.mark.parametrize(
        "tools",
        [[], [DynamicTools(lambda ctx: [lookup])], [tool(_plain, name="a-b")], [tool(_plain, name="if")]],
    )
    def test_wrong_tools_are_refused(self, tools: Any) -> None:
        with pytest.raises(ConfigError, match="CodeMode"):
            CodeMode(tools)

    async def test_it_is_run_by_an_agent_and_nothing_else(self) -> None:
        registry = ToolSet.of(CodeMode([lookup]).tools).build()
        for code, said in (("1", "in a run of an agent"), ("x" * 50_001, "at most 50000")):
            result = await registry.dispatch(ToolCall("c", "run_code", {"code": code}))
            assert said in str(result.error)

    async def test_a_guard_that_ends_the_run_ends_the_program(self) -> None:
        agent = coder("await lookup(name='ann')", middleware=[ToolGuard(lambda call: call.name != "lookup")])
        outcome = await agent.outcome("go")
        assert MADE == []
        assert "lookup" in str(outcome.messages) + str(getattr(outcome, "error", ""))

    async def test_a_program_and_its_result_may_be_as_long_as_they_may(self) -> None:
        assert await result_of(f"1  # {'x' * 49_995}") == "1"
        assert len(await result_of("'x' * 199_988", max_calls=1, memory_mb=1)) == 199_988

    @pytest.mark.parametrize("limits", [{"max_calls": 0}, {"seconds": 0}, {"memory_mb": 0}])
    def test_wrong_limits_are_refused(self, limits: Any) -> None:
        with pytest.raises(ConfigError, match="CodeMode"):
            CodeMode([lookup], **limits)


class TestInterruptions:
    CODE = "total = 0\nfor n in range(20):\n    total += await note(number=n)\ntotal"

    async def test_interrupted_at_every_call_none_is_made_again(self) -> None:
        """Each of 20 calls stops the run, which is stored and resumed by a new agent."""
        token = CancellationToken()

        @tool(effect="once", name="note", blocking=False)
        def stopping(number: int) -> int:
            """Write a number down."""
            MADE.append(str(number))
            token.cancel("killed")
            return number * 2

        outcome: Any = await coder(self.CODE, stopping).outcome("go", cancellation=token)
        stops = 0
        while isinstance(outcome, Interrupted):
            stops += 1
            token = CancellationToken()
            stored = from_json(Interrupted, to_json(outcome))
            agent = Agent(ScriptedLlm(["done"]), capabilities=[CodeMode([stopping])])
            outcome = await agent.runtime.resume(stored, cancellation=token)
        assert isinstance(outcome, Completed), outcome
        assert stops == 20
        assert [str(n) for n in range(20)] == MADE
        assert str(sum(2 * n for n in range(20))) in outcome.messages[-2].text
        assert (outcome.spent.steps, outcome.spent.tool_calls) == (2, 21)

    async def test_a_call_whose_outcome_is_unknown_is_an_exception_in_the_program(self) -> None:
        token = CancellationToken()

        @tool(effect="once", name="note")
        async def cut(number: int) -> int:
            """Write a number down."""
            MADE.append(str(number))
            if number == 1:
                token.cancel("killed")
                await asyncio.sleep(60)
            return number

        code = (
            "seen = []\nfor n in range(3):\n    try:\n        seen.append(await note(number=n))\n"
            "    except RuntimeError as e:\n        seen.append(str(e))\nseen"
        )
        outcome = await coder(code, cut).outcome("go", cancellation=token)
        assert isinstance(outcome, Interrupted)
        stored = from_json(Interrupted, to_json(outcome))
        agent = Agent(ScriptedLlm(["done"]), capabilities=[CodeMode([cut])])
        result = await agent.resume(stored)
        assert MADE == ["0", "1", "2"]
        assert "'note'" in result.outcome.messages[-2].text

    async def test_max_calls_counts_over_resumes_and_cannot_be_caught(self) -> None:
        code = "n = 0\nwhile True:\n    try:\n        await pay(amount=n)\n    except BaseException:\n        pass\n    n += 1"
        outcome: Any = await coder(code, limits={"max_calls": 3}).outcome("go")
        for _ in range(3):
            assert isinstance(outcome, Interrupted)
            stored = from_json(Interrupted, to_json(outcome))
            agent = Agent(ScriptedLlm(["done"]), capabilities=[CodeMode([lookup, note, pay], max_calls=3)])
            outcome = await agent.runtime.resume(stored, {stored.pending[0].token: Approve()})
        assert isinstance(outcome, Completed), outcome
        assert "more than 3 calls" in outcome.messages[-2].text
        assert MADE == ["paid 0", "paid 1", "paid 2"]

    @pytest.mark.parametrize(
        ("decision", "made", "shown"),
        [
            pytest.param(Approve(), ["1", "paid 5", "2"], '"paid 5"', id="approved"),
            pytest.param(Refuse("too much"), ["1", "2"], "too much", id="refused"),
        ],
    )
    async def test_an_approval_in_the_middle(self, decision: Any, made: list[str], shown: str) -> None:
        code = (
            "a = await note(number=1)\n"
            "try:\n    p = await pay(amount=5)\nexcept RuntimeError as e:\n    p = str(e)\n"
            "b = await note(number=2)\n[a, p, b]"
        )
        outcome = await coder(code).outcome("go")
        assert isinstance(outcome, Interrupted)
        (pending,) = outcome.pending
        assert (pending.call.name, pending.call.args) == ("pay", {"amount": 5})
        stored = from_json(Interrupted, to_json(outcome))
        agent = Agent(ScriptedLlm(["done"]), capabilities=[CodeMode([lookup, note, pay])])
        result = await agent.resume(stored, {pending.token: decision})
        assert made == MADE
        assert shown in result.outcome.messages[-2].text

    async def test_an_approval_is_answered_in_another_process(self) -> None:
        outcome = await coder("a = await note(number=1)\np = await pay(amount=5)\n[a, p]").outcome("go")
        assert isinstance(outcome, Interrupted)
        done = subprocess.run(
            [*python(), "-c", RESUME],
            input=to_json(outcome),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == "['paid 5'] [2,\"paid 5\"]", done.stderr

    async def test_siblings_of_a_call_that_waits_are_finished(self) -> None:
        code = "import asyncio\nawait asyncio.gather(note(number=1), pay(amount=5), note(number=2))"
        outcome = await coder(code).outcome("go")
        assert isinstance(outcome, Interrupted)
        agent = Agent(ScriptedLlm(["done"]), capabilities=[CodeMode([lookup, note, pay])])
        result = await agent.resume(outcome, {outcome.pending[0].token: Approve()})
        assert sorted(MADE) == ["1", "2", "paid 5"]
        assert '[2,"paid 5",4]' in result.outcome.messages[-2].text


RESUME = """
import asyncio, sys
from tests.kit.test_code_mode import MADE, lookup, note, pay
from wesichain import Agent
from wesichain.agent import Interrupted
from wesichain.core import from_json
from wesichain.core.internal import Approve
from wesichain.kit import CodeMode
from wesichain.middleware import ToolGuard
from wesichain.testing import ScriptedLlm

stored = from_json(Interrupted, sys.stdin.read())
agent = Agent(ScriptedLlm(["done"]), capabilities=[CodeMode([lookup, note, pay])])
result = asyncio.run(agent.resume(stored, {stored.pending[0].token: Approve()}))
print(MADE, result.outcome.messages[-2].text)
"""

ATTACKS = [
    "open('/etc/passwd').read()",
    "open('/tmp/wesichain-attack', 'w').write('x')",
    "import os\nos.system('touch /tmp/wesichain-attack')",
    "import os\nos.environ['HOME']",
    "import os\nos.listdir('/')",
    "import os\nos.getenv('PATH')",
    "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "from pathlib import Path\nPath('/tmp/wesichain-attack').write_text('x')",
    "from pathlib import Path\nlist(Path('/').iterdir())",
    "import subprocess\nsubprocess.run(['touch', '/tmp/wesichain-attack'])",
    "import socket\nsocket.socket()",
    "import urllib.request\nurllib.request.urlopen('http://localhost')",
    "import ctypes",
    "import importlib\nimportlib.import_module('os')",
    "import wesichain",
    "import pydantic_monty",
    "import builtins\nbuiltins.open('/etc/passwd')",
    "import sys\nsys.modules['os']",
    "import sys\nsys._getframe()",
    "import inspect\ninspect.currentframe()",
    "import gc\ngc.get_objects()",
    "import pickle\npickle.loads(b'x')",
    "import threading\nthreading.Thread()",
    "import signal",
    "import multiprocessing",
    "__import__('os').system('id')",
    "eval(\"__import__('os')\")",
    "exec('import subprocess')",
    "compile('1', 'x', 'eval')",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: 0).__globals__",
    "(lambda: 0).__code__.co_consts",
    "lookup.__globals__",
    "lookup.__self__",
    "lookup.__class__.__mro__",
    "''.__class__.__mro__[1].__subclasses__()",
    "'{0.__class__.__init__.__globals__}'.format(lookup)",
    "f'{lookup.__dict__}'",
    "getattr(lookup, '__' + 'globals__')",
    "globals()['__builtins__']['open']('/etc/passwd')",
    "vars()['x']",
    "breakpoint()",
    "input()",
    "help()",
    "while True:\n    pass",
    "def f():\n    return f()\nf()",
    "x = [0]\nwhile True:\n    x = x + x",
    "'x' * 10**10",
    "9 ** 9 ** 9",
    "x = 2\nwhile True:\n    x = x * x",
    "list(range(10**12))",
    "[[0] * 10**6 for _ in range(10**6)]",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b').group()",
    "x = {}\nfor i in range(10**9):\n    x[i] = str(i)",
    "while True:\n    try:\n        1 / 0\n    except BaseException:\n        pass",
    "try:\n    while True:\n        pass\nfinally:\n    while True:\n        pass",
    "import time\nwhile True:\n    time.sleep(1)",
    "import asyncio\nasync def f():\n    while True:\n        await asyncio.sleep(0)\nawait f()",
    "run_code(code='1')",
    "await run_code(code='1')",
]


class TestAttacks:
    @pytest.mark.parametrize("code", ATTACKS)
    async def test_nothing_gets_through(self, code: str) -> None:
        """The program fails or is stopped, or its result has nothing of the host; and the run goes on."""
        text = await result_of(code, seconds=0.2, memory_mb=32)
        assert "root:" not in text
        assert "TOOL ERROR" in text, text
        assert not Path("/tmp/wesichain-attack").exists()  # where the attacks would write
        assert MADE == []

    async def test_time_chance_and_the_clock_are_the_same_for_every_run(self) -> None:
        code = "import random, datetime, time\n[random.random(), str(datetime.datetime.now()), time.time()]"
        assert await result_of(code) == await result_of(code)

    async def test_what_is_printed_is_bounded(self) -> None:
        code = "for n in range(300):\n    print('x' * 49)\n1"
        assert json.loads(await result_of(code)) == {"value": 1, "printed": ("x" * 49 + "\n") * 200}
