"""Pictures and the like in recordings: their bytes are kept once, beside the file, and come back."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.core import values
from tests.draws import draws
from tests.trace.runs import NOON
from wesichain.core import (
    Document,
    Event,
    Image,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunCompleted,
    RunStarted,
    StepStarted,
    Text,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
    to_json,
)
from wesichain.trace import Recorder, list_runs, load, parts_folder, prune, read_new
from wesichain.trace.recordings.parts_folder import PartsFolder, PendingParts

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
PDF = b"%PDF-1.7 plan"


def run(run_id: str = "pictures", hops: int = 3, *, secret: str = "") -> list[Event]:
    """A run that is shown a picture in its task, and the same picture in every result."""
    question = Message(Role.USER, (Text("What is it?"), Image(PNG), Document(PDF, name=f"plan{secret}.pdf")))
    events: list[Event] = [RunStarted(run_id, 0, 0, NOON, "What is it?", "m", parts=(Image(PNG),))]
    for step in range(1, hops + 1):
        call = ToolCall(f"c{step}", "look", {"at": step})
        new = (question,) if step == 1 else ()
        seq = len(events)
        events += [
            StepStarted(run_id, step, seq, NOON, new, follows=step > 1),
            ModelResponded(
                run_id, step, seq + 1, NOON, LlmResponse("", (call,), Usage(1, 1), "tool_calls"), 1.0
            ),
            ToolDispatched(run_id, step, seq + 2, NOON, call),
            ToolCompleted(
                run_id, step, seq + 3, NOON, call.id, "look", "[image]", 1.0, (Text("seen"), Image(PNG))
            ),
        ]
    return [*events, RunCompleted(run_id, hops, len(events), NOON, "A cat.", Usage(3, 3))]


def record(folder: Path, events: list[Event]) -> Path:
    recorder = Recorder(folder, durable=True)
    for event in events:
        recorder.emit(event)
    recorder.close()
    return list_runs(folder)[0].path


def test_bytes_are_written_once_and_come_back(tmp_path: Path) -> None:
    path = record(tmp_path, run())
    kept = sorted(file.read_bytes() for file in parts_folder(path).iterdir())
    assert kept == sorted([PNG, PDF])
    assert path.stat().st_size < 4000, "no base64 in the lines"
    recording = load(path)
    assert recording.events == tuple(run())
    assert not recording.problems
    assert recording.requests()[2].messages[-1].content == (Text("seen"), Image(PNG))
    assert {oct(file.stat().st_mode & 0o777) for file in parts_folder(path).iterdir()} == {"0o600"}


def test_what_is_new_is_read_with_its_bytes(tmp_path: Path) -> None:
    events, _ = read_new(record(tmp_path, run()))
    assert events == tuple(run())


def test_lost_and_damaged_bytes_leave_their_hash_and_are_told(tmp_path: Path) -> None:
    path = record(tmp_path, run())
    picture = parts_folder(path) / Image(PNG).digest
    picture.write_bytes(b"something else")
    recording = load(path)
    assert recording.problems == (f"the bytes of sha256 {Image(PNG).digest} are not beside the recording",)
    content = recording.requests()[0].messages[0].content
    assert isinstance(content[1], Image)
    assert (content[1].data, content[1].digest) == (None, Image(PNG).digest)


def test_a_recording_has_room_for_so_many_bytes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, max_bytes=5000, durable=True)
    for event in run(hops=1):
        recorder.emit(event)
    recorder.close()
    path = list_runs(tmp_path)[0].path
    assert [file.name for file in parts_folder(path).iterdir()] == [Document(PDF).digest]
    assert load(path).problems


def test_pruning_takes_the_bytes_along(tmp_path: Path) -> None:
    path = record(tmp_path, run())
    assert prune(tmp_path, keep=0) == (path,)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_holds_a_secret_is_redacted(tmp_path: Path) -> None:
    path = record(tmp_path, run(secret="-sk-proj-abcdefghijklmnopqrstuvwxyz012345"))
    assert "abcdefghijklmnop" not in path.read_text(encoding="utf-8")
    assert load(path).requests()[0].messages[0].text == "What is it?"


@draws(12, shares_fixtures=True)
@given(st.lists(values.message, min_size=1, max_size=4))
def test_any_message_comes_back(tmp_path: Path, messages: list[Message]) -> None:
    from uuid import uuid4

    from wesichain.trace import redact

    run_id = uuid4().hex
    step = StepStarted(run_id, 1, 1, NOON, tuple(messages))
    events: list[Event] = [
        RunStarted(run_id, 0, 0, NOON, "hi", "m"), step, RunCompleted(run_id, 1, 2, NOON, "x", Usage()),
    ]  # fmt: skip
    recorder = Recorder(tmp_path, durable=True)
    for event in events:
        recorder.emit(event)
    recorder.close()
    path = next(one.path for one in list_runs(tmp_path) if one.run_id == run_id)
    assert to_json(load(path).events[1]) == to_json(redact(step))


def test_bytes_have_room_up_to_their_limit_and_are_named_by_their_hash_beyond_it(tmp_path: Path) -> None:
    parts = PendingParts(5)
    kept, again, fits, beyond = (parts.put(data) for data in (b"abc", b"abc", b"de", b"f"))
    assert kept == again
    parts.write(str(tmp_path / "run.jsonl"))
    parts.write(str(tmp_path / "run.jsonl"))
    assert {path.name for path in (tmp_path / "run.parts").iterdir()} == {kept, fits}
    folder = PartsFolder(tmp_path / "run.jsonl")
    assert [folder.get(digest) for digest in (kept, fits, beyond)] == [b"abc", b"de", None]
    assert folder.missing == (beyond,)
