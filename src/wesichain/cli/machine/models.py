"""models: the local models, which of them are here, and fetching one."""

from __future__ import annotations

from typing import Annotated

import typer

from wesichain.cli.terminal import fail, say, table
from wesichain.errors import WesichainError
from wesichain.llm.local import MODELS, StderrProgress, cached_model, fetch_model, find_model, models_folder


def models(
    fetch: Annotated[str | None, typer.Option(help="Fetch this model into the cache.")] = None,
) -> None:
    """The local models that are known, and whether they are on this machine."""
    if fetch is not None:
        try:
            path = fetch_model(find_model(fetch), progress=StderrProgress())
        except WesichainError as error:
            fail(error)
        say(str(path))
        return
    table(
        ("model", "size", "licence", "here", "about"),
        (
            (
                f"local:{card.name}",
                f"{card.size / 1e6:.0f} MB",
                card.licence,
                "yes" if cached_model(card) else "no",
                card.about,
            )
            for card in MODELS
        ),
    )
    say(f"\nfetched into {models_folder()}")
