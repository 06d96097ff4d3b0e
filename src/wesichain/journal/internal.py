"""Internal names that other packages of the framework use. Any version may change them."""

from .entries import *  # noqa: F403
