"""A shim: what another system lacks is missing for wesichain, and files behave for it as they do there.

`apply("win32")` or `apply("darwin")` is called before wesichain is imported. What wesichain and pathlib import are
copies of modules of the standard library, without the names that typeshed declares for other systems. Other libraries
see this system, because they have twins of their own. What a shim cannot show: the C library, the drives, the
permissions, the consoles and the processes of the other system.
"""

from __future__ import annotations

import builtins
import errno
import importlib
import io
import os
import pathlib
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, ModuleType
from typing import Any

from tests.platform.unix_only import absent_modules, absent_names

CHANGED = ("os", "signal", "select", "socket", "time", "subprocess", "fcntl", "resource")
SEEING = ("wesichain", "tests.platform.programs", "tests.platform.isolated", "pathlib")
DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
INVALID = re.compile(r'[<>:"|?*\x00-\x1f]')
O_BINARY = 0x8000  # on Windows
INFINITE = (1 << 63) - 1  # a limit on macOS; -1 on Linux
FULL_SYNCS: list[int] = []  # the descriptors that were written through to the drive

_seen: dict[str, Any] = {}  # the modules that wesichain gets
_os: Any = os


def apply(system: str) -> None:
    """Let wesichain, which is not imported yet, see another system."""
    assert not any(name.partition(".")[0] == "wesichain" for name in sys.modules)
    for name in CHANGED:
        _seen[name] = _copy(importlib.import_module(name), without=absent_names(name, system))
    _seen["sys"] = _Sys(system)
    (_become_windows if system == "win32" else _become_macos)()
    missing = absent_modules(system) - _seen.keys() | (absent_modules(system) & {"fcntl", "resource"})
    _import_what_is_seen(missing - {"msvcrt"})
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] == "pathlib" and "os" in vars(module):
            vars(module)["os"] = _seen["os"]


def _copy(module: ModuleType, without: frozenset[str]) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update({name: value for name, value in vars(module).items() if name not in without})
    return copy


class _Sys:
    """`sys` with the name of another system; everything else is read and set where it is."""

    def __init__(self, system: str) -> None:
        object.__setattr__(self, "platform", system)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)


def _import_what_is_seen(missing: frozenset[str]) -> None:
    given = builtins.__import__

    def load(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and globals is not None and str(globals.get("__name__")).startswith(SEEING):
            if name in missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in _seen:
                return _seen[name]
        return given(name, globals, locals, fromlist, level)

    builtins.__import__ = load


# --- files that ignore case, in both systems ---------------------------------------------------------


def _there(path: Any) -> Any:
    """The path of the file that is meant: one whose name differs by case alone, if there is one."""
    if not isinstance(path, str | os.PathLike):
        return path
    folder, name = _os.path.split(os.fspath(path))
    with suppress(OSError):
        listed = _os.listdir(folder or ".")
        if name not in listed:
            twin = next((each for each in listed if each.casefold() == name.casefold()), name)
            return _os.path.join(folder, twin)
    return path


def _wrap(name: str, change: Callable[..., Any]) -> None:
    """Let `change(function, *args)` take the place of a function of `os`."""
    function = getattr(_seen["os"], name)

    def changed(*args: Any, **options: Any) -> Any:
        return change(function, *args, **options)

    setattr(_seen["os"], name, changed)


def _ignore_case(*names: str) -> None:
    for name in names:
        _wrap(name, lambda function, path, *args, **options: function(_there(path), *args, **options))


# --- Windows -----------------------------------------------------------------------------------------

_texts: set[int] = set()  # descriptors whose newlines are translated


def _become_windows() -> None:
    seen = _seen["os"]
    seen.supports_dir_fd, seen.supports_fd = set(), set()
    seen.O_BINARY, seen.O_NOINHERIT, seen.linesep = O_BINARY, 0, "\r\n"
    _ignore_case("stat", "lstat", "mkdir", "listdir")
    _wrap("lstat", _windows_lstat)
    _wrap("open", _windows_open)
    _wrap("close", lambda close, fd: close(_of_bytes(fd)))
    _wrap("write", lambda write, fd, data: _write_text(write, fd, data) if fd in _texts else write(fd, data))
    _wrap(
        "read",
        lambda read, fd, size: read(fd, size).replace(b"\r\n", b"\n") if fd in _texts else read(fd, size),
    )
    _wrap("fdopen", lambda fdopen, fd, *args, **options: fdopen(_of_bytes(fd), *args, **options))
    _wrap("scandir", _no_descriptor)
    for name in ("stat", "lstat", "mkdir", "unlink", "replace", "rename", "listdir"):
        _check_first(name, _no_handles)
    for name in ("replace", "rename", "unlink", "remove"):
        _check_first(name, _refuse_open)
    _check_first("mkdir", _refuse_name)
    _check_first("rename", _refuse_existing)
    _check_first("fsync", _refuse_for_reading)
    _wrap("kill", _windows_kill)
    signals, sockets = _seen["signal"], _seen["socket"]
    signals.SIGBREAK, signals.CTRL_BREAK_EVENT, signals.CTRL_C_EVENT = _signals().SIGUSR1, 1, 0
    sockets.SO_EXCLUSIVEADDRUSE = sockets.SO_REUSEADDR
    _seen["msvcrt"] = _msvcrt()
    _seen["subprocess"].CREATE_NEW_PROCESS_GROUP = 0x200
    _patch_subprocess()
    _patch_texts()


def _of_bytes(descriptor: int) -> int:
    _texts.discard(descriptor)
    return descriptor


def _signals() -> Any:
    return importlib.import_module("signal")


def _refuse_for_reading(descriptor: int) -> None:
    fcntl: Any = importlib.import_module("fcntl")
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & 3 == os.O_RDONLY:
        raise OSError(errno.EBADF, "it was opened for reading")


class _Junction:
    """The status of a link to a folder, as if it were a junction: a folder with a reparse point."""

    st_reparse_tag = 0xA000_0003  # IO_REPARSE_TAG_MOUNT_POINT

    def __init__(self, target: os.stat_result) -> None:
        self.st_mode, self.st_size, self.st_nlink = target.st_mode, 0, 1


def _windows_lstat(lstat: Any, path: Any) -> Any:
    found = lstat(path)
    if stat.S_ISLNK(found.st_mode) and pathlib.Path(path).name == "junction":
        return _Junction(_os.stat(path))
    return found


def _windows_open(
    function: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
) -> int:
    _no_handles(None, dir_fd=dir_fd)
    _check_name(path)
    path = _there(path)
    if _os.path.isdir(path):
        raise PermissionError(errno.EACCES, "a folder cannot be opened", path)
    descriptor: int = function(path, flags & ~O_BINARY, mode)
    (_texts.discard if flags & O_BINARY else _texts.add)(descriptor)
    return descriptor


def _write_text(write: Any, descriptor: int, data: Any) -> int:
    write(descriptor, bytes(data).replace(b"\n", b"\r\n"))
    return len(data)


def _check_first(name: str, check: Callable[..., None]) -> None:
    function = getattr(_seen["os"], name)

    def checked(*args: Any, **options: Any) -> Any:
        check(*args, **options)
        return function(*args, **options)

    setattr(_seen["os"], name, checked)


def _no_handles(*_: Any, **options: Any) -> None:
    if any(options.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
        raise NotImplementedError("dir_fd unavailable on this platform")


def _no_descriptor(scandir: Any, path: Any = ".") -> Any:
    if isinstance(path, int):
        raise TypeError("scandir: path should be string, bytes, os.PathLike or None, not int")
    return scandir(path)


def _check_name(path: Any) -> None:
    name = _os.path.basename(os.fspath(path))
    if INVALID.search(name) or DEVICE.match(name) or name[-1:] in (".", " "):
        raise OSError(errno.EINVAL, "invalid name", name)


def _refuse_name(path: Any, *_: Any, **__: Any) -> None:
    _check_name(path)


def _refuse_existing(source: Any, target: Any, **_: Any) -> None:
    if _os.path.exists(target):
        raise FileExistsError(errno.EEXIST, "it exists", target)


def _refuse_open(*paths: Any, **_: Any) -> None:
    """A file that is open cannot be renamed, replaced or removed."""
    opened = {*_identities(f"/proc/self/fd/{name}" for name in _os.listdir("/proc/self/fd"))}
    for path in paths:
        if any(identity in opened for identity in _identities([path])):
            raise PermissionError(errno.EACCES, "it is open", path)


def _identities(paths: Any) -> Iterator[tuple[int, int]]:
    for path in paths:
        with suppress(OSError, TypeError):
            found = _os.stat(path)
            if stat.S_ISREG(found.st_mode):
                yield found.st_dev, found.st_ino


def _windows_kill(kill: Any, pid: int, number: int) -> None:
    """CTRL_BREAK reaches a group; any other signal ends the process at once."""
    if number == 1:
        _os.killpg(pid, _signals().SIGUSR1)
    else:
        kill(pid, _signals().SIGKILL)


def _msvcrt() -> ModuleType:
    """Locks of a byte by handle, and a console with keys."""
    fcntl: Any = importlib.import_module("fcntl")
    module: Any = ModuleType("msvcrt")
    module.LK_UNLCK, module.LK_LOCK, module.LK_NBLCK = 0, 1, 2
    locked: dict[int, set[int]] = {}  # the positions that a descriptor has locked
    module.typed, module.shown = [], []

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert count == 1
        position = _os.lseek(descriptor, 0, 1)
        found = locked.setdefault(descriptor, set())
        if mode == module.LK_UNLCK:
            if position not in found:
                raise PermissionError(errno.EACCES, "it is not locked")
            found.discard(position)
            if not found:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "it is locked") from None
        found.add(position)

    module.locking = locking
    module.kbhit = lambda: bool(module.typed)
    module.getwch = lambda: module.typed.pop(0)
    module.putwch = module.shown.append
    return module  # type: ignore[no-any-return]


def _patch_subprocess() -> None:
    """Options of Windows start a group here too; `taskkill` is a program of this folder."""
    begin = subprocess.Popen.__init__

    def start(self: Any, *args: Any, creationflags: int = 0, **options: Any) -> None:
        if creationflags:
            options["process_group"] = 0
        begin(self, *args, **options)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    os.environ["PATH"] = f"{pathlib.Path(__file__).parent / 'windows'}{os.pathsep}{os.environ['PATH']}"


def _patch_texts() -> None:
    """Texts have the system's newlines and encoding, unless a program says which."""
    given = io.open

    def opened(  # noqa: PLR0917  # as it is
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
        newline: Any = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(file, int):
            _texts.discard(file)
        elif _is_seen():
            _check_name(file)
            file = _there(file)
        if "b" not in mode and _is_seen():
            encoding = "cp1252" if encoding in (None, "locale") else encoding
            newline = "\r\n" if newline is None and set(mode) & set("wax+") else newline
        return given(file, mode, buffering, encoding, errors, newline, closefd, opener)

    io.open = builtins.open = opened


def _is_seen() -> bool:
    """Whether wesichain or its programs open the file, themselves or through pathlib."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != "pathlib":
            return bool(name.startswith(SEEING))
        frame = frame.f_back
    return False


# --- macOS -------------------------------------------------------------------------------------------


def _become_macos() -> None:
    fcntl, resource = _seen["fcntl"], _seen["resource"]
    fcntl.F_FULLFSYNC, resource.RLIM_INFINITY = 51, INFINITE
    control, limit, limits = fcntl.fcntl, resource.setrlimit, resource.getrlimit

    def full_sync(descriptor: Any, command: int, *args: Any) -> Any:
        if command == fcntl.F_FULLFSYNC:
            FULL_SYNCS.append(descriptor)
            return 0
        return control(descriptor, command, *args)

    def getrlimit(which: int) -> Any:
        soft, hard = (256, -1) if which == resource.RLIMIT_NOFILE else limits(which)
        return tuple(INFINITE if value == -1 else value for value in (soft, hard))

    def setrlimit(which: int, values: tuple[int, int]) -> None:
        if which in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            raise ValueError("current limit exceeds maximum limit")
        limit(which, tuple(-1 if value == INFINITE else value for value in values))

    fcntl.fcntl, resource.getrlimit, resource.setrlimit = full_sync, getrlimit, setrlimit
    _ignore_case("open", "stat", "lstat", "mkdir")
    _wrap("listdir", _without_proc)
    given = io.open

    def opened(file: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(file, int) and _is_seen():
            _without_proc(lambda path: None, file)
        return given(file, *args, **options)

    io.open = builtins.open = opened


def _without_proc(function: Any, path: Any = ".") -> Any:
    if isinstance(path, str | os.PathLike) and os.fspath(path).startswith("/proc"):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", path)
    return function(path)


@contextmanager
def typing_on_console(keys: str) -> Iterator[list[str]]:
    """Keys that wait at the console, and what is shown there."""
    console: Any = _seen["msvcrt"]
    console.typed[:], console.shown[:] = list(keys), []
    yield console.shown
