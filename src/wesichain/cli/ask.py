"""The commands that run an agent: ask, chat, run, demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from wesichain.agent import Agent, Conversation, RunMemory, SqliteConversations
from wesichain.core import RunCompleted
from wesichain.core.internal import home_folder
from wesichain.errors import MissingDependencyError
from wesichain.policy import Budget
from wesichain.trace import CollectingSink

from .demo import ANSWER, ORDERS, QUESTION, SENTENCE, SERVICE, Correction, Office, task_of
from .loading import DEFAULT_MODEL, chosen_model, fetch_local_model, load_agent, load_tools
from .mcp import connect
from .options import Database, Domain, Instructions, NoRecord, Playbook, Runs, Tools, Workers
from .playbooks import playbook_options
from .tasks import run_batch
from .terminal import FAILED, OK, fail, note, read_line
from .terminal_run import DisplayOptions, resume_run, run_task

Model = Annotated[
    str | None,
    typer.Option(
        help="openai:NAME, anthropic:NAME, ollama:NAME or local:NAME.",
        show_default=f"$WESICHAIN_MODEL, else {DEFAULT_MODEL}",
    ),
]
Events = Annotated[bool, typer.Option("--json", help="Events as lines of JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer.")]
_STEPS = 12  # the maximum of a default agent
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


def make_agent(
    model: str | None,
    tools: Path | None,
    instructions: str | None,
    steps: int,
    more: Sequence[Any] = (),
    *,
    learned: Mapping[str, Any],
) -> Agent[Any, str]:
    """Make an agent from the options of a command; `learned` are its playbook options."""
    found: list[Any] = [*(load_tools(tools) if tools is not None else ()), *more]
    limit = Budget(steps=steps)
    return Agent(chosen_model(model), tools=found, instructions=instructions, budget=limit, **learned)


def ask(
    text: Annotated[str, typer.Argument(help="The task; '-' reads it from standard input.")] = "",
    *,
    model: Model = None,
    tools: Tools = None,
    instructions: Instructions = None,
    steps: Steps = _STEPS,
    as_json: Events = False,
    quiet: Quiet = False,
    no_record: NoRecord = False,
    runs: Runs = None,
    mcp: Servers = None,
    mcp_protocol: Protocol = None,
    playbook: Playbook = None,
    domain: Domain = "general",
    resume: Annotated[str | None, typer.Option(help="Continue an interrupted run, by its id.")] = None,
) -> None:
    """Ask one question; print reasoning, calls and results, then the answer."""
    make = partial(make_agent, model, tools, instructions, steps, learned=playbook_options(playbook, domain))
    agent = partial(connect, mcp, mcp_protocol, make) if mcp else make()
    shown = DisplayOptions(as_json, quiet, not no_record, runs)
    if resume is not None:
        raise typer.Exit(resume_run(agent, resume, shown))
    text = (typer.get_text_stream("stdin").read() if text == "-" else text).strip()
    if not text:
        fail("there is no question: wesichain ask \"...\", or pipe it in with 'wesichain ask -'")
    fetch_local_model(chosen_model(model))
    raise typer.Exit(run_task(agent, text, shown))


def chat(
    *,
    model: Model = None,
    tools: Tools = None,
    instructions: Instructions = None,
    steps: Steps = _STEPS,
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
    agent = make_agent(model, tools, instructions, steps, learned=playbook_options(playbook, domain))
    fetch_local_model(chosen_model(model))
    memory = (
        Conversation(max_tokens) if conversation is None else _open_conversation(conversation, max_tokens)
    )
    shown = DisplayOptions(quiet=quiet, record=not no_record, runs=runs)
    status = OK
    while text := (read_line("you> ") or "").strip():
        status = run_task(agent, text, shown, conversation=memory)
    raise typer.Exit(status)


def _open_conversation(id: str, max_tokens: int) -> RunMemory:
    """Open a stored conversation."""
    home_folder().mkdir(parents=True, exist_ok=True)
    return SqliteConversations(home_folder() / "conversations.sqlite").open(id, max_tokens)


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
    as_json: Events = False,
    quiet: Quiet = False,
    no_record: NoRecord = False,
    playbook: Playbook = None,
    domain: Domain = "general",
    runs: Runs = None,
) -> None:
    """Run your own agent, from a file or a module: one task, or all tasks of a file."""
    learned = playbook_options(playbook, domain)
    if agent.endswith(".jsonl") and not task:
        found, task = make_agent(model, None, None, _STEPS, learned=learned), agent
    else:
        found = load_agent(agent)
        if learned:
            found = found.with_playbook(learned["playbook"], domain)
    tasks = Path(task)
    if task.endswith(".jsonl") and (tasks.is_file() or " " not in task):  # a single word is a file name
        raise typer.Exit(run_batch(found, tasks, workers=workers, out=out, database_url=database_url))
    if not task:
        fail('there is no task: wesichain run file.py:agent "...", or a file of tasks: tasks.jsonl')
    raise typer.Exit(run_task(found, task, DisplayOptions(as_json, quiet, not no_record, runs)))


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
