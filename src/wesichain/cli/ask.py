"""The commands that run an agent: ask, chat, run, demo."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from wesichain.agent import Conversation
from wesichain.core import RunCompleted
from wesichain.errors import MissingDependencyError
from wesichain.trace import CollectingSink

from .demo import ANSWER, ORDERS, QUESTION, SENTENCE, SERVICE, Correction, Office, task_of
from .loading import DEFAULT_MODEL, chosen_model, fetch_local_model
from .options import (
    Database,
    Deps,
    Domain,
    Events,
    Instructions,
    NoRecord,
    Playbook,
    Quiet,
    Runs,
    Tools,
    Workers,
)
from .target import STEPS, Target
from .tasks.batch import run_batch
from .terminal import FAILED, OK, fail, note, read_line, readable
from .terminal_run import DisplayOptions, open_program, perform, run_task, starting

Model = Annotated[
    str | None,
    typer.Option(
        help="openai:NAME, anthropic:NAME, ollama:NAME or local:NAME.",
        show_default=f"$WESICHAIN_MODEL, else {DEFAULT_MODEL}",
    ),
]
Steps = Annotated[int, typer.Option(min=1, help="The maximum number of model calls.")]
Servers = Annotated[
    list[str] | None,
    typer.Option("--mcp", metavar="COMMAND|URL", help="An MCP server whose tools are added. Repeatable."),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--mcp-protocol",
        metavar="VERSION",
        help="The newest MCP version to use. Servers that ask questions in the middle of a call may need "
        "2025-11-25.",
        show_default="the newest of both sides",
    ),
]


def ask(
    text: Annotated[str, typer.Argument(help="The task; '-' reads it from standard input.")] = "",
    *,
    model: Model = None,
    tools: Tools = None,
    instructions: Instructions = None,
    steps: Steps = STEPS,
    as_json: Events = False,
    quiet: Quiet = False,
    no_record: NoRecord = False,
    runs: Runs = None,
    mcp: Servers = None,
    mcp_protocol: Protocol = None,
    playbook: Playbook = None,
    domain: Domain = "general",
) -> None:
    """Ask one question; print reasoning, calls and results, then the answer."""
    text = (sys.stdin.read() if text == "-" else readable(text)).strip()
    if not text:
        fail("there is no question: 'wesichain ask --help' says how to ask one")
    target = Target.of(
        model=model,
        tools=tools,
        instructions=instructions,
        steps=steps,
        mcp=mcp,
        mcp_protocol=mcp_protocol,
        playbook=playbook,
        domain=domain,
        runs=runs,
        record=not no_record,
    )
    raise typer.Exit(run_task(target, text, DisplayOptions(as_json, quiet, not no_record, runs)))


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(
            help="An agent, file.py:agent or package.module:agent.", show_default="one of the options below"
        ),
    ] = None,
    *,
    model: Model = None,
    tools: Tools = None,
    instructions: Instructions = None,
    steps: Steps = STEPS,
    deps: Deps = None,
    quiet: Quiet = False,
    no_record: NoRecord = False,
    playbook: Playbook = None,
    domain: Domain = "general",
    runs: Runs = None,
    max_tokens: Annotated[
        int, typer.Option(min=100, help="How many tokens of the conversation the model receives.")
    ] = 4000,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Store the conversation, and continue it next time.")
    ] = None,
) -> None:
    """Chat with an agent that remembers the conversation. An empty line or Ctrl-D ends it."""
    if agent is not None and (tools is not None or instructions is not None):
        fail(f"{agent} has its own tools and instructions: leave out --tools and --instructions")
    target = Target.of(
        agent,
        model=model,
        tools=tools,
        instructions=instructions,
        steps=steps,
        deps=deps,
        playbook=playbook,
        domain=domain,
        runs=runs,
        record=not no_record,
        conversation=conversation,
        max_tokens=max_tokens,
    )
    shown = DisplayOptions(quiet=quiet, record=not no_record, runs=runs)
    raise typer.Exit(asyncio.run(_talk(target, shown)))


async def _talk(target: Target, shown: DisplayOptions) -> int:
    memory = target.memory() or Conversation(target.max_tokens)
    status = OK
    async with open_program(target) as opened:
        target.fetch_model()
        while text := (_next_line() or "").strip():
            status = await perform(opened, starting(text, conversation=memory), shown, memory)
    return status


def _next_line() -> str | None:
    """Read a line while the event loop stands still: between two messages nothing runs in it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else Ctrl-C would not end the read
    return read_line("you> ")


def run(
    agent: Annotated[
        str,
        typer.Argument(help="file.py:agent or package.module:agent; or tasks.jsonl, for a default agent"),
    ],
    task: Annotated[str, typer.Argument(help="The task, or tasks.jsonl with many.")] = "",
    *,
    workers: Workers = 4,
    out: Annotated[Path | None, typer.Option(help="The file for the results of tasks.jsonl.")] = None,
    database_url: Database = None,
    model: Model = None,
    deps: Deps = None,
    as_json: Events = False,
    quiet: Quiet = False,
    no_record: NoRecord = False,
    playbook: Playbook = None,
    domain: Domain = "general",
    runs: Runs = None,
) -> None:
    """Run your own agent, from a file or a module: one task, or all tasks of a file."""
    name: str | None = agent
    if agent.endswith(".jsonl") and not task:
        name, task = None, agent
    target = Target.of(
        name,
        model=model,
        deps=deps,
        playbook=playbook,
        domain=domain,
        runs=runs,
        record=not no_record,
    )
    tasks = Path(task)
    if task.endswith(".jsonl") and (tasks.is_file() or " " not in task):  # a single word is a file name
        raise typer.Exit(run_batch(target, tasks, workers=workers, out=out, database_url=database_url))
    if not task:
        fail("there is no task: 'wesichain run --help' says how to give one, or a file of them")
    raise typer.Exit(run_task(target, readable(task), DisplayOptions(as_json, quiet, not no_record, runs)))


def demo(
    *,
    model: Model = None,
    quiet: Quiet = False,
    no_record: NoRecord = False,
) -> None:
    """Answer a question with real tools and a local model; then run a task before and after a correction.

    Exit status 1 if the answer or the corrected run is wrong.
    """
    shown = DisplayOptions(quiet=quiet, record=not no_record)
    chosen = chosen_model(model)
    with TemporaryDirectory(prefix="wesichain-demo-") as folder:
        office = Office(Path(folder))
        answers = CollectingSink()
        agent = office.agent(chosen, events=[answers])
        fetch_local_model(chosen)
        note(f"\n1 of 3: a question, tools, an answer: {QUESTION}")
        status = run_task(agent, QUESTION, shown)
        is_right = any(
            ANSWER in str(event.output) for event in answers.events if isinstance(event, RunCompleted)
        )
        note(f"the answer is {'right' if is_right else 'wrong'}")
        try:
            is_learned = _run_correction(office, chosen, shown, Path(folder))
        except MissingDependencyError as error:
            note(f"\n2 and 3 of 3, a task before and after a correction, are left out: {error}")
            is_learned = True
    if not no_record:
        note("\nThe runs are recorded: 'wesichain trace list' names them, 'wesichain serve' shows them.")
    raise typer.Exit(max(status, FAILED if not (is_right and is_learned) else OK))


def _run_correction(office: Office, model: str, shown: DisplayOptions, folder: Path) -> bool:
    """Run a task that a tool refuses, record a correction, run the next task; whether that is right."""
    first, second = ORDERS
    with closing(Correction(folder)) as correction:
        note(f"\n2 of 3: a task that a tool refuses: {task_of(first)}")
        run_task(office.clerk(model, events=[correction.recorder]), task_of(first), shown)
        _print_parcel(office, first)
        note(f"\nA person says what was wrong: {SENTENCE}")
        correction.learn(SENTENCE)
        note(f"\n3 of 3: the next task: {task_of(second)}")
        run_task(office.clerk(model, correction.playbook), task_of(second), shown)
        return _print_parcel(office, second)


def _print_parcel(office: Office, order: str) -> bool:
    service = office.service_of(order)
    is_right = service == SERVICE
    verdict = f"sent by {service}" if service else "not sent"
    note(f"in the database: order {order} was {verdict}, which is {'right' if is_right else 'wrong'}")
    return is_right
