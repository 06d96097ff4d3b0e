"""Internal names that other packages of the framework use. Any version may change them."""

from .view import are_views as are_views
from .view import counter_of as counter_of
from .view import inactive_below as inactive_below
