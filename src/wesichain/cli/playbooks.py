"""playbook: list, show, search, record, export, load, promote and quarantine lessons, and more."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.core.internal import home_folder
from wesichain.errors import ConfigError

from .loading import load_object
from .options import Yes
from .terminal import command, confirm, echo, fail, is_interactive, table

if TYPE_CHECKING:
    from wesichain.learning import Embedder, Playbook

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Lessons: list, show, search, record, promote, quarantine, forget, rollback and more.",
)
Domain = Annotated[str, typer.Argument(help="The domain, such as 'billing'.")]
PlaybookFolder = Annotated[Path | None, typer.Option("--playbook", "--path", help="The playbook's folder.")]
Bullet = Annotated[str, typer.Argument(help="The id of a bullet.")]
EmbedderName = Annotated[
    str | None, typer.Option("--embedder", help="package.module:name; else the default.")
]


@contextmanager
def open_playbook(
    path: Path | None, embedder: str | None = None, *, url: str | None = None, create: bool = False
) -> Generator[Playbook]:
    """Open the playbook. With `create`, the folder need not exist."""
    from wesichain.learning import Playbook

    chosen = load_embedder(embedder) if embedder else None
    folder = path or home_folder() / "playbook"
    if path is not None and not (url or create or path.is_dir()):
        raise ConfigError(f"there is no playbook in {path}: there is no such folder")
    try:
        with Playbook.postgres(url, chosen) if url else Playbook.open(folder, chosen) as book:
            yield book
    except ValueError as error:  # a bullet that cannot be recorded
        fail(error)


@contextmanager
def open_for_runs(path: Path, domain: str) -> Generator[Playbook]:
    """Open the playbook that runs take advice from. It has to exist."""
    if not path.is_dir():
        raise ConfigError(
            f"--playbook {path}: there is no such folder; make it: 'wesichain playbook record --help'"
        )
    from wesichain.learning import Playbook

    with Playbook.open(path) as book:
        book.bullets(domain)  # raises for an invalid name now, not at the first run
        yield book


def load_embedder(target: str) -> Embedder:
    """Load the user's embedder, or call the factory of it."""
    from wesichain.learning import Embedder

    try:
        found: Any = load_object(target, object)
        made: Any = found if isinstance(found, Embedder) and not isinstance(found, type) else found()
    except (ConfigError, TypeError) as error:
        raise ConfigError(
            f"the embedder {target!r} cannot be loaded ({error}); write package.module:name"
        ) from error
    if not isinstance(made, Embedder):
        raise ConfigError(f"{target!r} is not an embedder: it needs a name, a dimension and embed(texts)")
    return made


@app.command("list")
def list_(
    domain: Annotated[str | None, typer.Argument()] = None,
    *,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """List the domains, or the bullets of one."""
    with open_playbook(path, embedder) as book:
        if domain is None:
            table(("domain", "bullets"), ((name, len(book.bullets(name))) for name in book.domains()))
            return
        table(
            ("id", "stage", "helpful", "harmful", "section", "shown as"),
            (
                (one.id, one.stage, one.helpful_count, one.harmful_count, one.section, one.text)
                for one in book.bullets(domain)
            ),
        )


@app.command()
def show(bullet: Bullet, *, path: PlaybookFolder = None, embedder: EmbedderName = None) -> None:
    """Show a bullet with all its data."""
    with open_playbook(path, embedder) as book:
        found = book.get(bullet)
        if found is None:
            words = () if path is None else ("--path", str(path.absolute()))
            fail(f"there is no bullet {bullet!r}; list the domains: {command('playbook', 'list', *words)}")
        for name in found.__dataclass_fields__:
            echo(f"{name:18} {getattr(found, name)}")
        echo(f"{'evidence':18} {book.evidence(bullet)}")


@app.command()
def search(
    domain: Domain,
    task: Annotated[str, typer.Argument(help="The task to find strategies for.")],
    *,
    k: Annotated[int, typer.Option(min=1)] = 3,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Show the lessons that an agent would get for a task."""
    with open_playbook(path, embedder) as book:
        for one in book.retrieve(task, domain=domain, k=k):
            echo(f"{one.id}  {one.text}")


@app.command()
def consolidate(
    domain: Domain,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be merged.")] = False,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Merge bullets with the same content, and remove stale ones."""
    with open_playbook(path, embedder) as book:
        from wesichain.learning import SemanticCurator

        done = SemanticCurator().consolidate(book, domain, dry_run=dry_run)
        verb = "would be merged" if dry_run else "merged"
        echo(f"{len(done.removed)} bullets {verb} into {len(done.updated)} others")
        for name in done.removed:
            echo(f"  {name}")


@app.command()
def promote(
    bullet: Bullet,
    *,
    force: Annotated[bool, typer.Option("--force", help="Skip the gate.")] = False,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Put a bullet into production."""
    with open_playbook(path, embedder) as book:
        found = book.promote(bullet, force=force)
        echo(f"{found.id} is {found.stage}")


@app.command()
def record(
    domain: Domain,
    content: Annotated[str, typer.Argument(help="The advice, in one sentence, as runs will read it.")],
    *,
    tool: Annotated[
        list[str] | None, typer.Option(help="A tool that it is about. Repeatable, in order.")
    ] = None,
    pitfall: Annotated[bool, typer.Option("--pitfall", help="It is a warning.")] = False,
    example: Annotated[str, typer.Option(help="An example of a task that it is for.")] = "",
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Record a sentence; it is added to every later run that it matches."""
    with open_playbook(path, embedder, create=True) as book:
        from wesichain.learning import PlaybookBullet, ToolCallingStrategy

        made = ToolCallingStrategy if tool else PlaybookBullet
        bullet = made(
            content=content,
            tool_sequence=tuple(tool or ()),
            section="Pitfalls" if pitfall else "Strategies",
            example_task=example,
        )
        kept = book.record(bullet, domain=domain)
        echo(f"{kept.id} is {kept.stage}; runs read: {kept.text}")


@app.command()
def quarantine(bullet: Bullet, *, path: PlaybookFolder = None, embedder: EmbedderName = None) -> None:
    """Stop using a bullet until it is promoted again."""
    with open_playbook(path, embedder) as book:
        found = book.quarantine(bullet)
        echo(f"{found.id} is {found.stage}")


@app.command()
def forget(
    *,
    bullet: Annotated[str | None, typer.Option("--id", help="The id of a bullet.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="The id of a task or run.")] = None,
    matching: Annotated[str | None, typer.Option(help="A text in the bullet, such as a name.")] = None,
    path: PlaybookFolder = None,
    url: Annotated[
        str | None, typer.Option("--url", help="A Postgres database in place of a folder.")
    ] = None,
    embedder: EmbedderName = None,
) -> None:
    """Erase bullets for good: from the state, the journal, the index and the files."""
    with open_playbook(path, embedder, url=url) as book:
        count = book.forget(id=bullet, task_id=task, matching=matching)
        echo(f"{count} bullets forgotten")


@app.command()
def rollback(
    domain: Domain,
    to: Annotated[str, typer.Option("--to", help="The number or the hash of the journal's entry.")],
    *,
    bullet: Annotated[str | None, typer.Option("--id", help="Roll back only this bullet.")] = None,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Restore an earlier state; the journal keeps both."""
    with open_playbook(path, embedder) as book:
        done = book.rollback(domain, to=int(to) if to.isdigit() else to, id=bullet)
        echo(
            "nothing has changed since"
            if done is None
            else f"rolled back; the journal is at entry {done.seq}"
        )


@app.command()
def export(
    page: Annotated[Path, typer.Argument(help="The page to write.")] = Path("PLAYBOOK.md"),
    *,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Write the playbook as a page to read, edit, review and keep in git."""
    with open_playbook(path, embedder) as book:
        book.export(page)
        echo(f"{page} has the advice of {', '.join(book.domains()) or 'no domain yet'}")


@app.command()
def load(
    page: Annotated[Path, typer.Argument(help="The page to load.")] = Path("PLAYBOOK.md"),
    *,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the changes.")] = False,
    path: PlaybookFolder = None,
    embedder: EmbedderName = None,
) -> None:
    """Load an edited page: print the changes, ask for confirmation, and apply them."""
    with open_playbook(path, embedder, create=True) as book:
        planned = [line for change in book.load(page, dry_run=True) for line in change.lines()]
        for line in planned:
            echo(line)
        if not planned or dry_run:
            echo("nothing to change" if not planned else "nothing was changed")
            return
        if is_interactive() and not yes and not confirm("make these changes?"):
            echo("nothing was changed")
            return
        book.load(page)
        echo(f"{len(planned)} changes made")
