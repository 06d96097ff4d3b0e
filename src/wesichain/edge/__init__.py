"""The edge: an agent over HTTP, as a plain API and in the protocols that frontends and agents speak."""

from typing import TYPE_CHECKING

from wesichain.core.internal import later

from .limits import Limits

if TYPE_CHECKING:
    from .application import create_app
    from .runs import Order, RunDirectory
else:
    __getattr__ = later(__name__, {".application": ("create_app",), ".runs": ("Order", "RunDirectory")})

__all__ = ["Limits", "Order", "RunDirectory", "create_app"]
