"""playbook: what was learned: list, show, search, consolidate, promote, rollback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wesichain.core import home_folder
from wesichain.errors import WesichainError

from .terminal import fail, say, table

if TYPE_CHECKING:
    from wesichain.learning import Playbook

app = typer.Typer(
    no_args_is_help=True, help="What was learned: list, show, search, consolidate, promote, rollback."
)
Domain = Annotated[str, typer.Argument(help="The domain, such as 'billing'.")]
Where = Annotated[Path | None, typer.Option("--path", help="The playbook's folder.")]


@contextmanager
def opened(path: Path | None) -> Generator[Playbook]:
    """The playbook, with every mistake as one line."""
    try:
        from wesichain.learning import Playbook

        with Playbook.open(path or home_folder() / "playbook") as book:
            yield book
    except (WesichainError, ValueError) as error:
        fail(error)


@app.command("list")
def list_(domain: Annotated[str | None, typer.Argument()] = None, *, path: Where = None) -> None:
    """The domains, or the bullets of one."""
    with opened(path) as book:
        if domain is None:
            table(("domain", "bullets"), ((name, len(book.bullets(name))) for name in book.domains()))
            return
        table(
            ("id", "stage", "helpful", "harmful", "section", "content"),
            (
                (one.id[:12], one.stage, one.helpful_count, one.harmful_count, one.section, one.content)
                for one in book.bullets(domain)
            ),
        )


@app.command()
def show(bullet: Annotated[str, typer.Argument(help="The id of a bullet.")], *, path: Where = None) -> None:
    """One bullet, with everything known of it."""
    with opened(path) as book:
        found = book.get(bullet)
        if found is None:
            fail(f"there is no bullet {bullet!r}; 'wesichain playbook list DOMAIN' shows their ids")
        for name in found.__dataclass_fields__:
            say(f"{name:18} {getattr(found, name)}")


@app.command()
def search(
    domain: Domain,
    task: Annotated[str, typer.Argument(help="The task to find strategies for.")],
    *,
    k: Annotated[int, typer.Option(min=1)] = 3,
    path: Where = None,
) -> None:
    """What an agent would be told for a task."""
    with opened(path) as book:
        for one in book.retrieve(task, domain=domain, k=k):
            say(f"{one.id[:12]}  {one.content}")


@app.command()
def consolidate(
    domain: Domain,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be merged.")] = False,
    path: Where = None,
) -> None:
    """Merge what says the same, and drop what is stale."""
    with opened(path) as book:
        from wesichain.learning import SemanticCurator

        say(str(SemanticCurator().consolidate(book, domain, dry_run=dry_run)))


@app.command()
def promote(
    bullet: Annotated[str, typer.Argument(help="The id of a bullet.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Without the gate.")] = False,
    path: Where = None,
) -> None:
    """Put a bullet into production."""
    with opened(path) as book:
        found = book.promote(bullet, force=force)
        say(f"{found.id[:12]} is {found.stage}")


@app.command()
def rollback(
    domain: Domain,
    to: Annotated[str, typer.Option("--to", help="The id of the journal's entry to go back to.")],
    *,
    path: Where = None,
) -> None:
    """Go back to an earlier state; the journal keeps both."""
    with opened(path) as book:
        done = book.rollback(domain, to=int(to) if to.isdigit() else to)
        say(
            "nothing had changed since"
            if done is None
            else f"rolled back; the journal is at entry {done.seq}"
        )
