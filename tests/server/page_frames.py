"""How busy the page keeps the browser: 50 updates a second, 5,000 live messages; and what a cut of the network costs.

    python tests/server/page_frames.py

Prints the longest tasks of the page's main thread, by the clock and by the time that the thread had a processor, which
tells of the page even where other programs are at work.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import sync_playwright

from server.page_browser import Opened, launched, opened
from server.serving import Process

LIVE, PER_SECOND, SECONDS = 5_000, 50, 10
CUT = 100  # messages while the network is away
OPTIONS = ("--space", "-1,-1,1,1", "--window-count", str(LIVE), "--clock", "event")


def posts(first: int, n: int) -> list[dict[str, Any]]:
    """Messages all over the map."""
    return [
        {
            "id": f"m{number}",
            "text": "tram late",
            "lon": number * 37 % 1000 / 500 - 1,
            "lat": number * 61 % 1000 / 500 - 1,
            "ts": 1_700_000_000_000 + number,
        }
        for number in range(first, first + n)
    ]


def play(page: Opened, first: int) -> int:
    """Publish at an even pace; return how many updates the page was told of."""
    before, step, end = page.state("told"), PER_SECOND // 10, time.monotonic() + SECONDS
    while (now := time.monotonic()) < end:
        page.publish(*posts(first, step))
        first += step
        time.sleep(max(0.0, now + 0.1 - time.monotonic()))
    return int(page.state("told")) - int(before)


def cut(page: Opened, first: int) -> int:
    """Publish while the page has no network; return how many updates it was then told of, each once and in order."""
    page.context.set_offline(True)
    for number in range(first, first + CUT, 10):
        page.publish(*posts(number, 10))
    page.context.set_offline(False)
    page.same("all")
    heard = [message for _, key, sign, message in page.state("heard") if key == "all" and sign == "+"]
    assert heard[-CUT:] == [post["id"] for post in posts(first, CUT)]
    assert len(set(heard)) == len(heard)
    return CUT


def main_thread(trace: Path) -> list[tuple[float, float]]:
    """Tasks of the busiest main thread of a page: milliseconds by the clock, and of a processor."""
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    tasks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        thread = event.get("pid"), event.get("tid")
        if event.get("ph") == "X" and "RunTask" in event["name"] and names.get(thread) == "CrRendererMain":
            tasks.setdefault(thread, []).append((event["dur"] / 1000, event.get("tdur", 0) / 1000))
    return max(tasks.values(), key=len)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        process, browser, trace = Process(Path(folder) / "data", *OPTIONS), launched(playwright), Path(folder) / "trace"
        with opened(browser, process.address) as page:
            for first in range(0, LIVE, 1_000):
                page.publish(*posts(first, 1_000))
            page.put("all", kind="within", region=[-1, -1, 1, 1], keywords="tram")
            page.until(lambda: page.state("messages") == LIVE, "all messages are on the map")
            page.listed("all")
            page.select("all")
            page.page.wait_for_timeout(2_000)
            browser.start_tracing(page=page.page, path=str(trace), categories=["toplevel", "__metadata"])
            told = play(page, LIVE)
            browser.stop_tracing()
            n = cut(page, LIVE + told)
        process.stop()
        tasks = main_thread(trace)
    for name, at in (("by the clock", 0), ("of a processor", 1)):
        longest = sorted((task[at] for task in tasks), reverse=True)
        print(f"{name}: {sum(longest):.0f} ms in all, longest {[round(each, 1) for each in longest[:5]]} ms")
    print(f"{n} updates after the network was cut, none missed or doubled")
    print(f"{told / SECONDS:.0f} updates a second for {SECONDS} s, {LIVE} live messages")


if __name__ == "__main__":
    main()
