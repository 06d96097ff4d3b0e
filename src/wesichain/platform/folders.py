"""Folders that nothing leads out of, and what they list."""

import sys

from .folder_entries import FolderEntry, is_draft

if sys.platform == "win32":
    from .windows_folders import (
        Folder,
        open_folder,
    )
else:
    from .posix_folders import (
        Folder,
        open_folder,
    )

__all__ = [
    "Folder",
    "FolderEntry",
    "is_draft",
    "open_folder",
]
