"""Files: the text files of a workspace, in memory or below one folder."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Protocol, runtime_checkable

from typing_extensions import override

from wesichain.core.internal import Value
from wesichain.errors import ConfigError, ToolError


class FileLimits(Value):
    """Limits of a workspace: bytes of one file, bytes of all files, and the number of files."""

    file_bytes: int = 1_000_000
    total_bytes: int = 100_000_000
    files: int = 10_000

    def __post_init__(self) -> None:
        if min(self.file_bytes, self.total_bytes, self.files) < 0:
            raise ConfigError(f"{self!r}: the limits have to be 0 or more")

    def check(self, path: str, size: int, others: dict[str, int]) -> None:
        """Raise `ToolError` if a file of this size exceeds a limit; `others` are the files that exist."""
        rest = {name: other_size for name, other_size in others.items() if name != path}
        if size > self.file_bytes:
            raise ToolError(f"{path!r} would have {size} bytes; a file has at most {self.file_bytes}")
        if size + sum(rest.values()) > self.total_bytes:
            raise ToolError(f"the workspace is full: it has at most {self.total_bytes} bytes")
        if len(rest) >= self.files:
            raise ToolError(f"the workspace is full: it has at most {self.files} files")


@runtime_checkable
class Files(Protocol):
    """The text files of a workspace, by path. Methods raise `ToolError` for what is not possible."""

    def sizes(self) -> dict[str, int]:
        """Return the size of every file in bytes, by path."""
        ...

    def read(self, path: str) -> str:
        """Return the text of a file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Create a file or replace it, atomically."""
        ...


class MemoryFiles(Files):
    """Files in memory. Event loops and threads of the process may share an instance."""

    def __init__(self, *, limits: FileLimits | None = None) -> None:
        self._limits = limits or FileLimits()
        self._texts: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._lock = RLock()

    @override
    def sizes(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._sizes.items()))

    @override
    def read(self, path: str) -> str:
        text = self._texts.get("/".join(file_parts(path)))
        if text is None:
            raise _missing(path)
        return text

    @override
    def write(self, path: str, text: str) -> None:
        with self._lock:
            self.check(path, text)
            self.put(path, text)

    def check(self, path: str, text: str) -> None:
        """Raise the `ToolError` that `write` would raise, without writing."""
        parts = file_parts(path)
        name = "/".join(parts)
        self._limits.check(name, len(_encoded(path, text)), self._sizes)
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if above & self._texts.keys() or any(other.startswith(f"{name}/") for other in self._texts):
            raise ToolError(f"{path!r} cannot be both a file and a folder")

    def put(self, path: str, text: str) -> None:
        """Write a file without checking it."""
        name = "/".join(file_parts(path))
        self._texts[name] = text
        self._sizes[name] = len(_encoded(path, text))


_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# To open a named pipe would block.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_PART = ".part-"  # a file that is being written; never listed


class FolderFiles(Files):
    """The files of a folder, which is created if it is missing.

    Nothing outside the folder can be read or written: every folder of a path is opened relative to the
    handle of its parent, without following links, so that neither a link nor a concurrent rename leads
    outside. Links, devices and pipes are neither listed nor read. A write replaces a file by a new one, and
    never writes through a link. Files that are not UTF-8 text are listed, but cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: FileLimits | None = None) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ConfigError("FolderFiles needs a system that opens files relative to a folder's handle")
        self._limits = limits or FileLimits()
        self._lock = RLock()
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._root)

    @override
    def sizes(self) -> dict[str, int]:
        return dict(sorted(_walk(self._root, "", self._limits.files + 1)))

    @override
    def read(self, path: str) -> str:
        *folders, name = file_parts(path)
        with _as_tool_errors(path), self._open_folder(folders) as folder:
            handle = os.open(name, _READ, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise _missing(path)
                content = file.read(self._limits.file_bytes + 1)
        if len(content) > self._limits.file_bytes:
            raise ToolError(f"{path!r} has more than {self._limits.file_bytes} bytes, and is not read")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path!r} is not text") from None

    @override
    def write(self, path: str, text: str) -> None:
        *folders, name = file_parts(path)
        content = _encoded(path, text)
        with self._lock, _as_tool_errors(path):
            self._limits.check("/".join((*folders, name)), len(content), self.sizes())
            with self._open_folder(folders, make=True) as folder:
                _replace(folder, name, content)

    @contextmanager
    def _open_folder(self, names: list[str], *, make: bool = False) -> Generator[int]:
        """Open a folder name by name from the root, and yield its handle."""
        handle = os.dup(self._root)
        try:
            for name in names:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=handle)
                below = os.open(name, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)


def _replace(folder: int, name: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
    part = _PART + token_hex()
    handle = os.open(part, _NEW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise


def _walk(folder: int, above: str, most: int) -> Iterator[tuple[str, int]]:
    """Yield the regular files below an open folder. Links, devices and pipes are skipped."""
    count = 0
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        if name.startswith(_PART) or not _is_nameable(above + name):
            continue
        with suppress(OSError):  # it may have been deleted
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                count += 1
                yield above + name, status.st_size
            elif stat.S_ISDIR(status.st_mode):
                below = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    for item in _walk(below, f"{above}{name}/", most - count):
                        count += 1
                        yield item
                finally:
                    os.close(below)
        if count >= most:
            return


def _is_nameable(path: str) -> bool:
    try:
        parts_of(path)
    except (ToolError, UnicodeEncodeError):
        return False
    return True


def _encoded(path: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"the text for {path!r} is not Unicode: it has lone surrogates") from None


def _missing(path: str) -> ToolError:
    return ToolError(f"there is no file {path!r}; list_files shows those that are there")


@contextmanager
def _as_tool_errors(path: str) -> Generator[None]:
    """Convert an error of the file system to a `ToolError` without the path of the root."""
    try:
        yield
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _missing(path) from None  # a link, a device or a pipe
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise ToolError(f"{path!r} cannot be used: {why.lower()}") from None


# --- paths ------------------------------------------------------------------------------------------

_MAX_CHARACTERS = 1_024  # characters of a path
_MAX_DEPTH = 32  # folders
_MAX_NAME_BYTES = 255  # what file systems take


def parts_of(path: str) -> tuple[str, ...]:
    """Split a relative path into its folders and its file. Raises `ToolError` for every other path.

    The path is also checked in its compatibility form (NFKC), in which a full-width dot is a dot: a path that
    could lead out of the root in either form is refused.
    """
    if not path or len(path) > _MAX_CHARACTERS:
        raise ToolError(f"a path has 1 to {_MAX_CHARACTERS} characters, not {len(path)}")
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in path):
        raise ToolError(f"the path {path!r} has control characters; use plain letters")
    normal = unicodedata.normalize("NFKC", path)
    if path.startswith("/") or normal.startswith("/") or "\\" in normal or normal[1:2] == ":":
        raise ToolError(f"the path {path!r} is not relative to the workspace; use one such as 'notes/a.md'")
    if normal.count("/") != path.count("/") or any(part.strip() == ".." for part in normal.split("/")):
        raise ToolError(f"the path {path!r} leads out of its folder; use one such as 'notes/a.md'")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if len(parts) > _MAX_DEPTH or any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        raise ToolError(f"the path {path!r} is too deep or has a name that is too long")
    return parts


def file_parts(path: str) -> tuple[str, ...]:
    """Split a path that has to name a file."""
    parts = parts_of(path)
    if not parts:
        raise ToolError(f"the path {path!r} does not name a file")
    return parts
