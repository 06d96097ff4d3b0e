"""The edge: an agent over HTTP, as a plain API and in the protocols of frontends and other agents."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .limits import Limits

if TYPE_CHECKING:
    from .application import create_app
    from .runs import Inbox, Order
    from .service import Identity
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".application": ("create_app",),
            ".runs": ("Inbox", "Order"),
            ".service": ("Identity",),
        },
    )

__all__ = ["Identity", "Inbox", "Limits", "Order", "create_app"]
