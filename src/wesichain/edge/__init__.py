"""The edge: an agent over HTTP, as a plain API and in the protocols that frontends and agents speak."""

from .application import create_app
from .limits import Limits

__all__ = ["Limits", "create_app"]
