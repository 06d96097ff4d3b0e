"""Files: opening, reading at a position, locks, the way to the disk, replacing."""

import sys

if sys.platform == "win32":
    from .windows_files import (
        appending,
        lock,
        open_file,
        read_at,
        replace,
        sync,
        sync_folder,
        try_lock,
        unlock,
    )
else:
    from .posix_files import (
        appending,
        lock,
        open_file,
        read_at,
        replace,
        sync,
        sync_folder,
        try_lock,
        unlock,
    )

__all__ = [
    "appending",
    "lock",
    "open_file",
    "read_at",
    "replace",
    "sync",
    "sync_folder",
    "try_lock",
    "unlock",
]
