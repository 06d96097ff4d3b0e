"""Internal names that other packages of the framework use. Any version may change them."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .call_args import CallArgs as CallArgs
from .json_schema.issues import Issue as Issue
from .labels import NO_LABELS as NO_LABELS
from .labels import FieldLabels as FieldLabels
from .labels import ToolLabels as ToolLabels
from .registry import Offered as Offered
from .results import PreparedCall as PreparedCall

if TYPE_CHECKING:
    from .running.threads import in_thread as in_thread
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            "..running.threads": ("in_thread",),
        },
    )
