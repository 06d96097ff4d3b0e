"""Folders on Windows: reached by paths, which are resolved and compared before they are used."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from .folder_entries import DRAFT, FolderEntry, check_readable, entry_of
from .names import is_windows_name

assert sys.platform == "win32"

from .windows_files import is_link, lock, open_file, refuse_link, replace, unlock  # noqa: E402  # not elsewhere

_LOCK = f"{DRAFT}lock"


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """Open a folder, which is created if it is missing, for its owner only."""
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Folder(os.path.realpath(path))


class Folder:
    """A folder. Links, junctions and names that Windows changes are refused, and so is what leads elsewhere.

    Windows has no handles of folders that Python can use: a path is resolved, compared with the path that was
    meant, and then used. A program of the same user that puts a junction there in between is not noticed.
    """

    def __init__(self, path: str) -> None:
        self._path = path  # without links

    @contextmanager
    def below(self, names: Sequence[str], *, make: bool = False) -> Generator[Folder]:
        """Open a folder below this one, name by name; with `make`, create those that are missing."""
        folder = self
        for name in names:
            path = folder._inside(name)
            if make:
                with suppress(FileExistsError):
                    os.mkdir(path, 0o700)  # noqa: PTH102  # a text is enough
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            folder = Folder(path)
        yield folder

    def _inside(self, name: str) -> str:
        """Return the path of a name in this folder. Raises `OSError` for what leads elsewhere."""
        if not is_windows_name(name):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        path = os.path.join(self._path, name)  # noqa: PTH118  # a text is enough
        refuse_link(path)
        if os.path.normcase(os.path.realpath(path)) != os.path.normcase(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return path

    def entries(self) -> Iterator[FolderEntry]:
        """Yield the regular files and the folders, by name."""
        try:
            names = sorted(filter(is_windows_name, os.listdir(self._path)))  # noqa: PTH208  # a text is enough
        except FileNotFoundError:  # it has been deleted
            return
        for name in names:
            entry = self._entry(name)
            if entry is not None:
                yield entry

    def _entry(self, name: str) -> FolderEntry | None:
        try:
            status = os.lstat(os.path.join(self._path, name))  # noqa: PTH118  # a text is enough
        except OSError:  # it has been deleted
            return None
        return None if is_link(status) else entry_of(name, status)

    def read(self, name: str, most: int) -> bytes:
        """Return the first bytes of a regular file that has no other name."""
        path = self._inside(name)
        check_readable(os.lstat(path))  # a device is not opened
        handle = open_file(path, os.O_RDONLY)
        with os.fdopen(handle, "rb") as file:
            self._inside(name)  # the path may have become another
            check_readable(os.fstat(handle))
            return file.read(most)

    def write(self, name: str, data: bytes) -> None:
        """Create a file or replace it, atomically. A link is refused."""
        path = self._inside(name)
        if os.path.isdir(path):  # noqa: PTH112  # a text is enough
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        draft = os.path.join(self._path, DRAFT + token_hex())  # noqa: PTH118  # a text is enough
        handle = open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            replace(draft, self._inside(name))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)  # noqa: PTH108  # a text is enough
            raise

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Keep other writers of this folder out, in this process and in others, by a file in it."""
        handle = open_file(self._inside(_LOCK), os.O_RDWR | os.O_CREAT)
        try:
            lock(handle)
            try:
                yield
            finally:
                unlock(handle)
        finally:
            os.close(handle)
