"""Live text: who waits for a run here is known for as long as they do, and nothing is left of them."""

from __future__ import annotations

from wesichain.durable.live_text import LiveText
from wesichain.testing import FakeClock


def test_a_run_is_begun_until_the_last_who_waits_for_it_leaves() -> None:
    live = LiveText(FakeClock(1000.0))
    with live.begun("r"):
        with live.begun("r"):
            pass
        assert live.is_begun("r")
    assert not live.is_begun("r")


def test_text_reaches_everybody_who_listens_and_who_comes_later_has_the_call_from_its_beginning() -> None:
    live = LiveText(FakeClock(1000.0))
    with live.model_call("r", 1, 3, ()) as take:
        assert take is None, "nobody would listen"
    with live.begun("r"), live.listening("r", is_new=True) as first, live.model_call("r", 1, 3, ()) as take:
        assert take is not None
        take("a")
        with live.listening("r", is_new=True) as second, live.listening("r", is_new=False) as third:
            take("b")
            heard = [[getattr(one.next(3), "text", None) for _ in range(3)] for one in (first, second, third)]
    assert heard == [["a", "b", None], ["a", "b", None], ["b", None, None]]
    with live.begun("r"), live.listening("r", is_new=True) as late:
        assert late.next(3) is None, "the call is over"
