"""Calls of the system become counts of answers that left too early."""

from __future__ import annotations

from nearcast.cli import bench as command
from nearcast.server.durable import frames

command.part("figure")
from bench.serve.trace import judged  # noqa: E402


def shown(content: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in content) + '"'


def written(*events: int) -> str:
    return f"7 pwrite64(9, {shown(b''.join(frames.encode(event, b'x') for event in events))}, 40, 256) = 40"


def answer(event: int) -> str:
    return f'8 write(12, {shown(b"""{"cursor":"0af.%d"}""" % event)}, 30) = 30'


HEAD = f"7 pwrite64(9, {shown(b'nearcast log 1')}, 256, 0) = 256"
BEGUN, ENDED = "6 fdatasync(9 <unfinished ...>", "6 <... fdatasync resumed>) = 0"


def test_an_answer_after_the_sync_of_its_events_is_in_order() -> None:
    told = judged("\n".join([HEAD, written(1, 2), BEGUN, ENDED, answer(2), answer(1)]))
    assert (told["answers"], told["answers_before_their_sync"], told["events"], told["syncs"]) == (2, 0, 2, 1)


def test_an_answer_before_it_is_found() -> None:
    assert judged("\n".join([HEAD, written(1), BEGUN, answer(1), ENDED]))["answers_before_their_sync"] == 1


def test_a_sync_counts_for_what_was_written_before_it_began() -> None:
    calls = [HEAD, written(1), BEGUN, written(2), ENDED, answer(2), answer(1)]
    assert judged("\n".join(calls))["answers_before_their_sync"] == 1


def test_files_beside_the_log_do_not_count() -> None:
    calls = [HEAD, written(1), "6 fdatasync(4) = 0", answer(1)]
    assert judged("\n".join(calls))["answers_before_their_sync"] == 1
