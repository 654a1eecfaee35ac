"""Waiting with a limit of time."""

from __future__ import annotations

import asyncio

import pytest

from nearcast.server.push.waiting import Wake, Watch


async def test_who_waits_goes_on_when_it_is_woken_was_woken_before_or_the_time_is_over() -> None:
    wake = Wake()
    wake.set()
    await wake.wait(3600)  # it was woken before
    waiting = asyncio.create_task(wake.wait(3600))
    await asyncio.sleep(0)
    wake.set()
    wake.set()
    await waiting
    await wake.wait(0.0)


async def test_what_takes_too_long_is_ended_and_what_follows_has_its_own_time() -> None:
    watch = Watch()
    for _ in range(2):
        await watch.within(1.0, asyncio.sleep(0.6))  # in all longer than the limit, each within it
    with pytest.raises(TimeoutError):
        await watch.within(1.0, asyncio.sleep(3600))
    watch.close()


async def test_an_end_from_elsewhere_stays_one() -> None:
    watch = Watch()
    task = asyncio.create_task(watch.within(3600, asyncio.sleep(3600)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
