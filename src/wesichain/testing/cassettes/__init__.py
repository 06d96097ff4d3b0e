"""Cassettes: runs of a test's agents, recorded to a file beside the test and replayed from it."""

from .cassette import Cassette, Mode, cassette_path
from .file import is_cassette, read_cassette, write_cassette
from .tape import Tape

__all__ = ["Cassette", "Mode", "Tape", "cassette_path", "is_cassette", "read_cassette", "write_cassette"]
