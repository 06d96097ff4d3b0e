"""Internal names that other packages of the framework use. Any version may change them."""

from .all_runs import AllRuns as AllRuns
from .run_store import Filter as Filter
from .run_store import RunStore as RunStore
