"""What an open folder lists, and which of its files may be read."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

DRAFT = ".part-"  # begins the names of files that are being written, in any case of letters


class FolderEntry(NamedTuple):
    """A regular file or a folder in an open folder. `links` is the number of the file's names."""

    name: str
    is_folder: bool
    size: int
    links: int


def entry_of(name: str, status: os.stat_result) -> FolderEntry | None:
    """The entry of a regular file or a folder; None for a link, a device or a pipe, and for a draft."""
    is_folder = stat.S_ISDIR(status.st_mode)
    if not (is_folder or stat.S_ISREG(status.st_mode)) or is_draft(name):
        return None
    return FolderEntry(name, is_folder, status.st_size, status.st_nlink)


def is_draft(name: str) -> bool:
    """Whether the name is kept for files that are being written."""
    return name.casefold().startswith(DRAFT)


def check_readable(status: os.stat_result) -> None:
    """Raise `OSError`: ENXIO for what is no regular file, EMLINK for a file with another name elsewhere."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    if status.st_nlink > 1:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))
