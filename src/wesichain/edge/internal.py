"""Internal names that other packages of the framework use. Any version may change them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

if TYPE_CHECKING:
    from .connections import ConnectionGuard as ConnectionGuard
    from .runs import DepsMaker as DepsMaker
    from .runs import RunDirectory as RunDirectory
    from .stored_runs import DurableRunner as DurableRunner
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..connections": ("ConnectionGuard",),
            "..runs": ("DepsMaker", "RunDirectory"),
            "..stored_runs": ("DurableRunner",),
        },
    )
