"""Changes of the database while the loop goes on: in order, together, each whole or not at all."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.server.access.store import Statement, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    store.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)")
    yield store
    store.close()


def note(id: int, said: str = "") -> Statement:
    return Statement("INSERT INTO notes VALUES (?, ?)", (id, said))


async def test_changes_are_there_when_they_are_awaited_and_in_order(store: Store) -> None:
    later = Statement("UPDATE notes SET said = ? WHERE id = 1", ("b",))
    await asyncio.gather(store.change(note(1, "a")), store.change(later), *(store.change(note(n)) for n in range(2, 9)))
    assert store.rows("SELECT said FROM notes WHERE id = 1") == [{"said": "b"}]
    assert store.rows("SELECT count(*) AS n FROM notes") == [{"n": 8}]


async def test_what_fails_leaves_nothing_and_harms_nobody_who_came_with_it(store: Store) -> None:
    told = await asyncio.gather(
        store.change(note(1)), store.change(note(2), note(1)), store.change(note(3)), return_exceptions=True
    )
    assert [type(each) for each in told] == [type(None), sqlite3.IntegrityError, type(None)]
    assert [row["id"] for row in store.rows("SELECT id FROM notes")] == [1, 3]


async def test_what_waits_is_done_before_the_end(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)")
    waiting = [asyncio.ensure_future(store.change(note(n))) for n in range(20)]
    await asyncio.sleep(0)
    await asyncio.to_thread(store.close)
    await asyncio.gather(*waiting)
    again = Store(tmp_path)
    assert again.rows("SELECT count(*) AS n FROM notes") == [{"n": 20}]
    again.close()
