"""Folders on POSIX: reached by the handle of an open folder, so that no name leads out of it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from .folder_entries import DRAFT, FolderEntry, check_readable, entry_of

assert sys.platform != "win32"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # to open a named pipe would block
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """Open a folder, which is created if it is missing, for its owner only."""
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    folder = Folder(handle)
    weakref.finalize(folder, os.close, handle)
    return folder


class Folder:
    """An open folder. The names in it are resolved relative to its handle, and links are never followed.

    Neither a link nor a concurrent rename leads elsewhere. Any number of threads may use it at once.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def _close(self) -> None:
        os.close(self._handle)

    @contextmanager
    def below(self, names: Sequence[str], *, make: bool = False) -> Generator[Folder]:
        """Open a folder below this one, name by name; with `make`, create those that are missing."""
        folder = self
        try:
            for name in names or (".",):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=folder._handle)
                inner = folder._opened(name)
                if folder is not self:
                    folder._close()
                folder = inner
            yield folder
        finally:
            if folder is not self:
                folder._close()

    def _opened(self, name: str) -> Folder:
        """Open a folder in this one, or, by ".", this one again: each handle lists from its own position."""
        return Folder(os.open(name, _FOLDER, dir_fd=self._handle))

    def entries(self) -> Iterator[FolderEntry]:
        """Yield the regular files and the folders, by name."""
        try:
            own = self._opened(".")
        except FileNotFoundError:  # it has been deleted
            return
        try:
            with os.scandir(own._handle) as listed:
                names = sorted(item.name for item in listed)
        finally:
            own._close()
        for name in names:
            status = self._status(name)
            entry = None if status is None else entry_of(name, status)
            if entry is not None:
                yield entry

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except OSError:  # it has been deleted
            return None

    def read(self, name: str, most: int) -> bytes:
        """Return the first bytes of a regular file that has no other name."""
        handle = os.open(name, _READ, dir_fd=self._handle)
        with os.fdopen(handle, "rb") as file:
            check_readable(os.fstat(handle))
            return file.read(most)

    def write(self, name: str, data: bytes) -> None:
        """Create a file or replace it, atomically. A link is replaced, not followed."""
        status = self._status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        draft = DRAFT + token_hex()
        handle = os.open(draft, _NEW, 0o600, dir_fd=self._handle)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(draft, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=self._handle)
            raise

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Keep other writers of this folder out, in this process and in others.

        Network file systems that cannot lock a folder let them in.
        """
        own = self._opened(".")
        try:
            with suppress(OSError):
                fcntl.flock(own._handle, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with suppress(OSError):
                    fcntl.flock(own._handle, fcntl.LOCK_UN)  # a fork may have a copy of the handle
        finally:
            own._close()
