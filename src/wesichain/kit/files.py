"""Files: the text files of a workspace, in memory or below one folder."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import NamedTuple, Protocol, runtime_checkable

from typing_extensions import override

from wesichain.core.internal import Value
from wesichain.errors import ConfigError, ToolError
from wesichain.platform.folders import Folder, is_draft, open_folder


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

    def copy(self) -> MemoryFiles:
        """Return files of their own with these texts and limits."""
        other = MemoryFiles(limits=self._limits)
        with self._lock:
            other._texts, other._sizes = dict(self._texts), dict(self._sizes)
        return other

    def put(self, path: str, text: str) -> None:
        """Write a file without checking it."""
        name = "/".join(file_parts(path))
        self._texts[name] = text
        self._sizes[name] = len(_encoded(path, text))


class FolderFiles(Files):
    """The files of a folder, which is created if it is missing.

    Nothing outside the folder can be read or written: every folder of a path is opened relative to its
    parent, without following links, so that neither a link nor a concurrent rename leads outside (on Windows,
    paths are resolved and compared). Links, devices, pipes and files that have another name elsewhere (hard
    links) are neither listed nor read. A write replaces a file by a new one, and never writes through a link.
    Files that are not UTF-8 text are listed, but cannot be read. The limits hold for all writers of the
    folder together, in every process.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: FileLimits | None = None) -> None:
        self._limits = limits or FileLimits()
        self._lock = RLock()  # for folders that the system cannot lock
        self._root = open_folder(path)

    @override
    def sizes(self) -> dict[str, int]:
        return dict(sorted((file.path, file.size) for file in self._stored() if not file.is_linked))

    def linked(self) -> list[str]:
        """Return the files that are not listed because they have another name, which may be elsewhere."""
        return sorted(file.path for file in self._stored() if file.is_linked)

    def _stored(self) -> Iterator[_StoredFile]:
        return _walk(self._root, "", self._limits.files + 1)

    @override
    def read(self, path: str) -> str:
        *folders, name = _stored_parts(path)
        with _as_tool_errors(path), self._root.below(folders) as folder:
            content = folder.read(name, self._limits.file_bytes + 1)
        if len(content) > self._limits.file_bytes:
            raise ToolError(f"{path!r} has more than {self._limits.file_bytes} bytes, and is not read")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path!r} is not text") from None

    @override
    def write(self, path: str, text: str) -> None:
        *folders, name = _stored_parts(path)
        content = _encoded(path, text)
        with self._lock, _as_tool_errors(path), self._root.exclusive():
            stored = {file.path: file.size for file in self._stored()}
            self._limits.check("/".join((*folders, name)), len(content), stored)
            with self._root.below(folders, make=True) as folder:
                folder.write(name, content)


class _StoredFile(NamedTuple):
    path: str
    size: int
    is_linked: bool  # it has another name, which may be outside


def _walk(folder: Folder, above: str, most: int) -> Iterator[_StoredFile]:
    """Yield at most so many regular files below an open folder."""
    for entry in folder.entries():
        path = above + entry.name
        if most <= 0:
            return
        if not _is_nameable(path):
            continue
        if not entry.is_folder:
            most -= 1
            yield _StoredFile(path, entry.size, entry.links > 1)
            continue
        with suppress(OSError), folder.below([entry.name]) as inner:  # it may have been deleted
            for file in _walk(inner, f"{path}/", most):
                most -= 1
                yield file


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


def _stored_parts(path: str) -> tuple[str, ...]:
    """Split a path that names a file of a folder."""
    parts = file_parts(path)
    if any(map(is_draft, parts)):
        raise ToolError(f"{path!r} cannot be used: such names are kept for files that are being written")
    return parts


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
        if error.errno == errno.EMLINK:
            raise ToolError(f"{path!r} is a link to a file that may be elsewhere, and is not read") from None
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _missing(path) from None  # a link, a device or a pipe
        if error.errno == errno.EINVAL:
            raise ToolError(
                f"{path!r} is no name that this system can store; use letters and digits"
            ) from None
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
