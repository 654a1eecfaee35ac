"""Streams of a Redis server, as the source and the sink need them: where they end, what lies between two entries.

Entries are counted by a script that runs in the server, so that whoever plans a read does not fetch the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from nearcast.errors import InvalidInput, SetupError
from nearcast.spark.sources.options import of_client, required

NOTHING = "0-0"  # before all entries
PAGE = 10_000  # entries fetched, or counted, in one call

_STEP = """
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], ARGV[2], 'COUNT', ARGV[3])
return {#found, #found > 0 and found[#found][1] or ''}
"""
_LARGEST = 2**64 - 1


class Span(NamedTuple):
    """Entries of a stream, in a row."""

    stream: str
    after: str  # the entry before the first
    last: str
    n: int  # how many there were when it was planned


class Server:
    """A connection to a server.

    Parameters
    ----------
    options
        ``url`` (``redis://``, ``rediss://`` with TLS, or ``unix://``) and whatever begins with ``redis.``: settings of
        the client by its own names, such as ``redis.password`` or ``redis.ssl_ca_certs``.

    Raises
    ------
    SetupError
        The client is not installed, or the server does not answer.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            import redis
        except ImportError:
            raise SetupError("redis is not installed. Run: pip install 'nearcast[redis]'") from None
        url = urlsplit(required(options, "url", "redis://HOST:6379"))
        host = url.netloc.rpartition("@")[2]
        self.shown = f"{url.scheme}://{host}{url.path}"  # without a password
        # The client converts settings that stand in an address, and takes others as they are.
        settings = urlencode({**dict(parse_qsl(url.query)), **of_client(options, "redis.")})
        self._redis = redis
        try:
            self._client: Any = redis.Redis.from_url(urlunsplit((*url[:3], settings, "")))
        except (ValueError, TypeError) as error:
            raise InvalidInput("url", self.shown, f"and redis.* must be what the client takes ({error})") from None
        self.ask("ping")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, what: str, *given: Any, **named: Any) -> Any:
        """Have the client do something; what goes wrong is told with the server's address."""
        try:
            return getattr(self._client, what)(*given, **named)
        except (self._redis.RedisError, OSError, TypeError) as error:
            raise SetupError(f"Redis at {self.shown}: {error}") from error

    def end(self, stream: str) -> str:
        """The last entry that a stream has ever had."""
        return _text(self._known(stream).get("last-generated-id", NOTHING))

    def start(self, stream: str) -> str:
        """The id before a stream's first entry."""
        found = self.ask("xrange", stream, count=1)
        return before(_text(found[0][0])) if found else self.end(stream)

    def lost(self, stream: str, offset: str) -> str | None:
        """What of a stream behind an offset is gone for ever, in words; None if nothing is."""
        known = self._known(stream)
        end, deleted = (_text(known.get(name, NOTHING)) for name in ("last-generated-id", "max-deleted-entry-id"))
        if key(end) < key(offset):
            return f"it ends at {end}, before {offset}, which was read: it was deleted and made again"
        found = self.ask("xrange", stream, count=1)
        trimmed = not found or key(_text(found[0][0])) > key(deleted)
        if trimmed and key(deleted) > key(offset):
            return f"entries up to {deleted} were deleted, and {offset} was the last that was read"
        return None

    def _known(self, stream: str) -> dict[str, Any]:
        return self.ask("xinfo_stream", stream) if self.ask("exists", stream) else {}

    def step(self, stream: str, after: str, last: str, most: int) -> Span:
        """The next entries behind one, up to another: `most` of them, or all that there are."""
        n, at = 0, after
        while n < most:
            found, end = self.ask("eval", _STEP, 1, stream, at, last, min(PAGE, most - n))
            if not found:
                break
            n, at = n + found, _text(end)
        return Span(stream, after, at, n)

    def read(self, span: Span) -> Iterator[list[tuple[bytes, dict[bytes, bytes]]]]:
        """The entries of a span, a page at a time."""
        at = span.after
        while key(at) < key(span.last):
            page = self.ask("xrange", span.stream, f"({at}", span.last, count=PAGE)
            if not page:
                return
            yield page
            at = _text(page[-1][0])

    def enter(self, stream: str, field: str, values: list[bytes], mark: str, number: int, keep_s: int | None) -> bool:
        """Enter values and set a mark to a number, at once or not at all; False if the mark stands there already."""
        try:
            with self._client.pipeline(transaction=True) as transaction:
                while True:
                    transaction.watch(mark)
                    if int(transaction.get(mark) or -1) >= number:
                        return False
                    transaction.multi()
                    for value in values:
                        transaction.xadd(stream, {field: value})
                    transaction.set(mark, number, ex=keep_s)
                    try:
                        transaction.execute()
                    except self._redis.WatchError:  # another attempt of this task was faster
                        continue
                    return True
        except (self._redis.RedisError, OSError) as error:
            raise SetupError(f"Redis at {self.shown}: {error}") from error


def key(entry: str) -> tuple[int, int]:
    """By what entries are ordered."""
    time, _, number = entry.partition("-")
    try:
        return int(time), int(number or 0)
    except ValueError:
        raise InvalidInput("offset", entry, "must be the id of an entry, such as 1700000000000-0") from None


def before(entry: str) -> str:
    """The id before an entry's."""
    time, number = key(entry)
    if number:
        return f"{time}-{number - 1}"
    return f"{time - 1}-{_LARGEST}" if time else NOTHING


def _text(given: bytes | str) -> str:
    return given.decode() if isinstance(given, bytes) else given
