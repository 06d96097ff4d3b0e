"""Processes: groups of them, forks, and programs that get sockets from this process."""

import sys

if sys.platform == "win32":
    from .windows_processes import (
        CAN_FORK,
        LIMITS_MEMORY,
        OWN_GROUP,
        after_fork,
        end_group,
        has_ended,
        send_socket,
        start_with_socket,
        usable_cores,
    )
else:
    from .posix_processes import (
        CAN_FORK,
        LIMITS_MEMORY,
        OWN_GROUP,
        after_fork,
        end_group,
        has_ended,
        send_socket,
        start_with_socket,
        usable_cores,
    )

__all__ = [
    "CAN_FORK",
    "LIMITS_MEMORY",
    "OWN_GROUP",
    "after_fork",
    "end_group",
    "has_ended",
    "send_socket",
    "start_with_socket",
    "usable_cores",
]
