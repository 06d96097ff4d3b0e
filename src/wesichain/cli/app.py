"""The Typer application: all commands, each loaded when it is used."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from wesichain import __version__

# The module and the function of each command, or the application of a group, in the order of the help.
_COMMANDS = {
    "run": ("ask", "run"),
    "ask": ("ask", "ask"),
    "chat": ("ask", "chat"),
    "resume": ("decisions", "resume"),
    "demo": ("ask", "demo"),
    "runs": ("durable_runs", "app"),
    "trace": ("traces", "app"),
    "eval": ("tasks.evaluating", "eval_"),
    "improve": ("tasks.improving", "improve"),
    "playbook": ("learning", "app"),
    "drift": ("agent_ci", "drift"),
    "simulate": ("agent_ci", "simulate"),
    "serve": ("serving", "serve"),
    "api": ("api", "api"),
    "worker": ("durable_runs", "worker"),
    "mcp": ("mcp", "mcp"),
    "doctor": ("machine", "doctor"),
}
_PRINTS_TOOL_ERRORS = ("run", "ask", "chat", "resume", "demo")  # in one line each, themselves
_SILENT = logging.NullHandler()


class _Commands(TyperGroup):
    """The commands, of which only the one that is given is imported."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return [*_COMMANDS]

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name not in self.commands:
            module, attribute = _COMMANDS[cmd_name]
            found: Any = getattr(import_module(f".{module}", __package__), attribute)
            if not isinstance(found, typer.Typer):
                function, found = found, typer.Typer(pretty_exceptions_enable=False, add_completion=False)
                found.command(cmd_name)(function)
            self.commands[cmd_name] = typer.main.get_command(found)
            self.commands[cmd_name].name = cmd_name
        return self.commands[cmd_name]


app = typer.Typer(
    name="wesichain",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Agents that call tools: every call validated, every run limited and recorded, lessons drawn "
    "from runs.",
)


def _version(wanted: bool) -> None:  # the signature of a Typer callback
    if wanted:
        typer.echo(f"wesichain {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001  # its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
    if context.invoked_subcommand in _PRINTS_TOOL_ERRORS:
        # Without a handler Python would print the traceback too. The root logger still gets the error.
        logging.getLogger("wesichain.tools").addHandler(_SILENT)
