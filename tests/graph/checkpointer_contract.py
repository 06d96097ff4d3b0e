"""The contract of checkpointers, with the behaviours that it tests."""

from __future__ import annotations

from tests.graph.behaviours import behaviour
from wesichain.testing import CheckpointerContract
from wesichain.testing.checkpoints import entry, numbers

__all__ = ["CheckpointerContract", "entry", "numbers"]

behaviour("K01")(CheckpointerContract.test_what_was_appended_is_read_back_as_it_was)
behaviour("K02")(CheckpointerContract.test_an_unknown_thread_has_nothing_and_a_known_one_has_its_newest)
behaviour("K04")(CheckpointerContract.test_threads_and_owners_do_not_mix)
behaviour("K05")(CheckpointerContract.test_reading_begins_at_the_base_of_the_newest_checkpoint)
behaviour("K06", "K09")(
    CheckpointerContract.test_a_checkpoint_settles_what_was_pending_on_its_parent_and_nothing_else
)
behaviour("K07")(CheckpointerContract.test_the_same_place_in_a_thread_is_written_once)
behaviour("K10")(CheckpointerContract.test_threads_are_listed_the_newest_first)
behaviour("K11")(CheckpointerContract.test_deleting_forgets_one_thread_wholly)
