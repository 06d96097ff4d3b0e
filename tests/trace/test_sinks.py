"""Sinks that keep events, and the one that stands before a slow sink."""

from __future__ import annotations

import gc
import logging
import subprocess
import threading
import time

import pytest

from tests.conftest import ROOT
from tests.trace.runs import run
from tests.warm import python
from wesichain.core import Event
from wesichain.errors import ConfigError
from wesichain.trace import BufferedSink, CollectingSink


class Slow:
    """Waits for a signal before it takes its first event."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.started = threading.Event()
        self.events: list[Event] = []
        self.closed = False

    def emit(self, event: Event) -> None:
        self.started.set()
        assert self.go.wait(10)
        self.events.append(event)

    def close(self) -> None:
        self.closed = True


class Broken:
    def emit(self, event: Event) -> None:
        raise OSError("no")


class TestABufferedSink:
    def test_hands_on_every_event_in_order(self) -> None:
        sink = CollectingSink()
        with BufferedSink(sink) as buffered:
            assert buffered.flush(timeout=0)  # there is nothing to wait for
            for event in run(count=100):
                buffered.emit(event)
            assert buffered.flush(timeout=10)
            assert sink.events == run(count=100)
        assert buffered.dropped == 0

    def test_does_not_make_the_run_wait(self) -> None:
        slow = Slow()
        buffered = BufferedSink(slow)
        for event in run():
            buffered.emit(event)  # which returns, though nothing is taken
        assert not buffered.flush(timeout=0.05)
        slow.go.set()
        assert buffered.close(timeout=10)
        assert slow.events == run()
        assert slow.closed

    def test_counts_what_it_drops_and_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        slow = Slow()
        buffered = BufferedSink(slow, max_queue=5)
        events = run(count=10)
        buffered.emit(events[0])
        assert slow.started.wait(10)
        with caplog.at_level(logging.WARNING, "wesichain.trace"):
            for event in events[1:]:
                buffered.emit(event)
            slow.go.set()
            assert buffered.close(timeout=10)
        kept = [*events[:6], events[-1]]  # one in hand, five waiting, and the end of the run always
        assert slow.events == kept
        assert buffered.dropped == len(events) - len(kept)
        messages = [record.getMessage() for record in caplog.records]
        assert "events are dropped" in messages[0]
        assert f"missed {buffered.dropped} events" in messages[1]
        assert len(messages) == 2

    def test_goes_on_after_its_sink_raised(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "wesichain.trace"), BufferedSink(Broken()) as buffered:
            first, *rest = run()
            buffered.emit(first)
            assert buffered.flush(timeout=10)
            assert len(caplog.records) == 1, "the first failure is logged at once"
            for event in rest:
                buffered.emit(event)
            assert buffered.flush(timeout=10)
            assert buffered.failures == len(run())
        assert len(caplog.records) == 2

    def test_that_is_closed_counts_what_comes_too_late(self) -> None:
        buffered = BufferedSink(CollectingSink())
        assert buffered.close()
        assert buffered.close()
        buffered.emit(run()[0])
        assert buffered.dropped == 1

    def test_that_is_closed_without_time_says_what_it_missed(self) -> None:
        slow = Slow()
        buffered = BufferedSink(slow)
        for event in run():
            buffered.emit(event)
        assert slow.started.wait(10)
        assert not buffered.close(timeout=0.05)
        assert 0 < buffered.dropped < len(run())
        assert not slow.closed
        slow.go.set()

    def test_leaves_no_thread_behind(self) -> None:
        before = threading.active_count()
        sinks = [BufferedSink(CollectingSink()) for _ in range(5)]
        for sink in sinks[:3]:
            sink.close()
        del sink, sinks
        gc.collect()
        for _ in range(200):
            if threading.active_count() <= before:
                break
            time.sleep(0.02)
        assert threading.active_count() <= before

    def test_is_emptied_when_the_program_ends(self) -> None:
        code = (
            "import time\n"
            "from tests.trace.runs import run; from wesichain.trace import BufferedSink\n"
            "class Slow:\n"
            "    def emit(self, event): time.sleep(0.02); print(event.seq)\n"
            "sink = BufferedSink(Slow())\n"
            "for event in run(): sink.emit(event)\n"
        )
        done = subprocess.run([*python(), "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
        assert len(done.stdout.split()) == len(run())

    def test_needs_room_for_one(self) -> None:
        with pytest.raises(ConfigError):
            BufferedSink(CollectingSink(), max_queue=0)
        with BufferedSink(CollectingSink(), max_queue=1) as buffered:
            buffered.emit(run()[0])
        assert buffered.dropped == 0
