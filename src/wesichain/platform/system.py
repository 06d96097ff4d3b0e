"""The system: the user's folder, the name of the machine, its addresses and limits."""

import sys

if sys.platform == "win32":
    from .windows_system import (
        data_folder,
        machine_id,
        raise_file_limit,
        reserve_address,
    )
else:
    from .posix_system import (
        data_folder,
        machine_id,
        raise_file_limit,
        reserve_address,
    )

__all__ = [
    "data_folder",
    "machine_id",
    "raise_file_limit",
    "reserve_address",
]
