"""Server-sent events: the same, wherever the bytes are cut."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wesichain.llm.transport.sse import SseEvent, SseScanner

STREAM = (
    b": a comment\r\n\r\ndata: one\r\n\r\nevent: named\ndata:two\ndata: lines\n\n"
    b"id: 7\nretry: 9\n\ndata: \xe2\x82\xac\r\rdata\n\ndata: last"
)
EVENTS = [SseEvent("one"), SseEvent("two\nlines", "named"), SseEvent("€"), SseEvent(""), SseEvent("last")]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=30).map(sorted))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    scanner = SseScanner()
    edges = [0, *cuts, len(STREAM)]
    found = [event for a, b in pairwise(edges) for event in scanner.feed(STREAM[a:b])]
    assert found + scanner.close() == EVENTS


def test_single_bytes_give_the_same_events() -> None:
    scanner = SseScanner()
    found = [event for byte in STREAM for event in scanner.feed(bytes([byte]))]
    assert found + scanner.close() == EVENTS


def test_a_long_line_is_scanned_in_linear_time() -> None:
    scanner = SseScanner()
    began = time.process_time()
    for _ in range(100_000):
        scanner.feed(b"x")
    assert time.process_time() - began < 5  # quadratic scanning takes minutes
