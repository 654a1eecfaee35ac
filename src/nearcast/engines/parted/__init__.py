"""One kind's subscriptions in several engines, so that as many threads can take the same events at once.

The table stays whole: slots, and with them the order of updates, are those of a single engine. Each part files only
its own slots (`share`), and asks the live messages through a reader with scratch of its own (`LiveReader`). `workers`
are the threads; `engine` hands out the calls and puts together what comes back.
"""

from nearcast.engines.parted.engine import PartedEngine
from nearcast.engines.parted.share import part_of
from nearcast.engines.parted.workers import MOST_THREADS, Workers

__all__ = ["MOST_THREADS", "PartedEngine", "Workers", "part_of"]
