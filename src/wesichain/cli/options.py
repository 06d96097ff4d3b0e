"""Options that several commands take, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wesichain.trace import redact

AgentName = Annotated[str, typer.Argument(help="The agent: file.py:NAME or package.module:NAME.")]
AgentMaker = Annotated[
    str, typer.Option("--agent", help="file.py:NAME or package.module:NAME: an agent, or a factory of one.")
]
AgentOption = Annotated[
    str | None,
    typer.Option("--agent", help="file.py:NAME or package.module:NAME.", show_default="the stored one"),
]
AgentFilter = Annotated[str | None, typer.Option("--agent", help="Of one agent only.")]
Deps = Annotated[
    str | None,
    typer.Option(
        "--deps",
        metavar="FILE:MAKE",
        help="The deps of runs: file.py:make or package.module:make, a function or a context manager that is "
        "opened for each run.",
    ),
]
Instructions = Annotated[str | None, typer.Option(help="Instructions, sent before the task.")]
Tools = Annotated[Path | None, typer.Option(help="A Python file with tools: functions marked with @tool.")]

Events = Annotated[bool, typer.Option("--json", help="Events as lines of JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON, on standard output.")]
NoRecord = Annotated[bool, typer.Option("--no-record", help="Do not record the runs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Workers = Annotated[int, typer.Option(min=1, help="How many runs at once.")]

Runs = Annotated[
    Path | None,
    typer.Option("--runs", help="The folder of recordings.", show_default="$WESICHAIN_HOME/runs"),
]
_DATABASE = "WESICHAIN_DATABASE_URL"
Url = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar=_DATABASE,
        show_envvar=False,
        help="Durable runs: sqlite:///FILE or postgresql://...",
        show_default=f"${_DATABASE}, else durable.db in $WESICHAIN_HOME",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar=_DATABASE,
        show_envvar=False,
        help="Durable runs: sqlite:///FILE or postgresql://...",
        show_default=f"${_DATABASE}",
    ),
]
Playbook = Annotated[
    Path | None, typer.Option("--playbook", help="A playbook's folder: lessons from earlier runs.")
]
Domain = Annotated[str, typer.Option("--domain", help="The domain of the playbook's lessons.")]

Checks = Annotated[
    list[str] | None,
    typer.Option("--check", help="A function (case, outcome): file.py:name. Repeatable."),
]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge", help="A model PROVIDER:NAME that reads rubrics and expected answers."),
]

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]


def runs_words(runs: Path | None) -> tuple[str, ...]:
    """The option that names a folder of recordings in a command that is printed."""
    return () if runs is None else ("--runs", str(runs.absolute()))


def database_words(url: str | None) -> tuple[str, ...]:
    """The option that names a database in a command that is printed.

    An address with a password is not printed: such a command is for a shell with the variable.
    """
    if url is None or redact(url) != url:
        return ()
    scheme, found, path = url.partition("sqlite:///")
    return ("--database-url", f"{found}{Path(path).absolute()}" if found and not scheme else url)
