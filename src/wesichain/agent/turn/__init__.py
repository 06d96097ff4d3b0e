"""A turn: what the model is shown, what it says, and what that is."""

from .asking import Asking

__all__ = ["Asking"]
