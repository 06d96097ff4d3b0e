"""Internal names that other packages of the framework use. Any version may change them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .tokens import tokens_of as tokens_of
from .view import are_views as are_views
from .view import counter_of as counter_of
from .view import inactive_below as inactive_below

if TYPE_CHECKING:
    from .builtin_views import fit as fit
else:
    __getattr__ = lazy_getattr(__name__, {"..builtin_views": ("fit",)})
