"""The commands that run an agent: ask, chat, run, demo."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from wesichain.agent import Agent, Conversation
from wesichain.errors import WesichainError
from wesichain.policy import Budget

from .demo import QUESTIONS, Office
from .loading import chosen_model, fetch, load_agent, load_tools
from .mcp import connect
from .running import carry_on, carry_out
from .terminal import OK, fail, note

Model = Annotated[str | None, typer.Option(help="openai:NAME, anthropic:NAME, ollama:NAME or local:NAME.")]
Tools = Annotated[Path | None, typer.Option(help="A Python file with tools: functions marked with @tool.")]
Json = Annotated[bool, typer.Option("--json", help="Events as lines of JSON on standard output.")]
NoRecord = Annotated[bool, typer.Option("--no-record", help="Keep no recording of the run.")]
Steps = Annotated[int, typer.Option(min=1, help="How many model calls the run may make.")]
Instructions = Annotated[str | None, typer.Option(help="What the model is told before the task.")]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp", metavar="COMMAND|URL", help="An MCP server whose tools are added; may be repeated."
    ),
]


def build(
    model: str | None, tools: Path | None, instructions: str | None, steps: int, more: Sequence[Any] = ()
) -> Agent[str]:
    try:
        found: list[Any] = [*(load_tools(tools) if tools is not None else ()), *more]
        return Agent(chosen_model(model), tools=found, instructions=instructions, budget=Budget(steps=steps))
    except WesichainError as error:
        fail(error)


def ask(
    text: Annotated[str, typer.Argument(help="The task; '-' reads it from standard input.")] = "",
    *,
    model: Model = None,
    tools: Tools = None,
    instructions: Instructions = None,
    steps: Steps = 12,
    as_json: Json = False,
    no_record: NoRecord = False,
    mcp: Servers = None,
    resume: Annotated[str | None, typer.Option(help="Go on with an interrupted run, by its id.")] = None,
) -> None:
    """Ask one question, and watch the thoughts, the calls and the results on the way to the answer."""
    make = partial(build, model, tools, instructions, steps)
    agent = partial(connect, mcp, make) if mcp else make()
    if resume is not None:
        raise typer.Exit(carry_on(agent, resume, as_json=as_json, record=not no_record))
    text = (typer.get_text_stream("stdin").read() if text == "-" else text).strip()
    if not text:
        fail("there is no question: wesichain ask \"...\", or pipe it in with 'wesichain ask -'")
    fetch(chosen_model(model))
    raise typer.Exit(carry_out(agent, text, as_json=as_json, record=not no_record))


def chat(
    *,
    model: Model = None,
    tools: Tools = None,
    instructions: Instructions = None,
    steps: Steps = 12,
    no_record: NoRecord = False,
    max_tokens: Annotated[
        int, typer.Option(min=100, help="How much of the conversation the model sees.")
    ] = 4000,
) -> None:
    """Talk with the agent; it remembers questions and answers. An empty line or Ctrl-D ends it."""
    agent = build(model, tools, instructions, steps)
    fetch(chosen_model(model))
    memory = Conversation(max_tokens=max_tokens)
    status = OK
    while True:
        try:
            text = typer.prompt("you", default="", show_default=False, prompt_suffix="> ", err=True)
        except (EOFError, typer.Abort):
            break
        if not str(text).strip():
            break
        status = carry_out(agent, str(text), as_json=False, record=not no_record, conversation=memory)
    raise typer.Exit(status)


def run(
    agent: Annotated[str, typer.Argument(help="file.py:agent or package.module:agent")],
    task: Annotated[str, typer.Argument(help="The task.")],
    *,
    as_json: Json = False,
    no_record: NoRecord = False,
) -> None:
    """Run an agent of your own, from a file or a module."""
    try:
        found = load_agent(agent)
    except WesichainError as error:
        fail(error)
    raise typer.Exit(carry_out(found, task, as_json=as_json, record=not no_record))


def demo(
    *,
    model: Model = None,
    no_record: NoRecord = False,
) -> None:
    """Answer three questions on this machine, with real tools and no key."""
    status = OK
    with TemporaryDirectory(prefix="wesichain-demo-") as folder:
        try:
            agent = Office(Path(folder)).agent(chosen_model(model))
        except WesichainError as error:
            fail(error)
        fetch(chosen_model(model))
        for question in QUESTIONS:
            note(f"\n{question}")
            status = max(status, carry_out(agent, question, as_json=False, record=not no_record))
    raise typer.Exit(status)
