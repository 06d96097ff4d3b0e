"""The system: the user's folder, the name of the machine, its addresses."""

import sys

if sys.platform == "win32":
    from .windows_system import (
        data_folder,
        machine_id,
        reserve_address,
    )
else:
    from .posix_system import (
        data_folder,
        machine_id,
        reserve_address,
    )

__all__ = [
    "data_folder",
    "machine_id",
    "reserve_address",
]
