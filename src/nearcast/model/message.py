"""What a publisher says becomes a `Message`: an id, a place, words and times, all checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from nearcast.errors import InvalidInput
from nearcast.model.checks import identity, is_a, number, string, strings
from nearcast.model.fields import FieldValue, fields_of
from nearcast.model.instant import LAST_INSTANT, TimeValue, optional_expiry, optional_instant
from nearcast.model.words import words_in, words_of


@dataclass(frozen=True, slots=True)
class Message:
    """One message with a place, words and a time.

    Parameters
    ----------
    id
        A string, or an int of 64 bits; unique among live messages.
    lon, lat
        Where it is said. Finite; whether a latitude is possible is for the space to judge.
    text
        Free text, cut into words by the text rules; may be empty.
    keywords
        Words that are folded but not cut, instead of `text`. A string is read as text. Kept as a tuple.
    ts
        When: epoch milliseconds, a datetime (UTC if it has no zone), a `pandas.Timestamp`, a `numpy.datetime64` or an
        ISO 8601 string. Kept as epoch milliseconds; what is finer is floored. None means the clock of the broker.
    expires
        From when on the message is no longer live, given as `ts` is; None means no expiry of its own.
    fields
        Values by name that a query's `where` can ask for: numbers, strings, booleans and lists of strings, as a
        mapping or as the JSON text of one. Kept as a dict; lists become tuples, and a None is left out.

    Raises
    ------
    InvalidInput
        For a value of the wrong type or range, and unless exactly one of `text` and `keywords` is given.

    Examples
    --------
    >>> Message("m1", -73.97, 40.76, "New ramen place", ts=1_700_000_000_000).words
    ('new', 'ramen', 'place')
    """

    id: str | int
    lon: float
    lat: float
    text: str | None = None
    keywords: Sequence[str] | None = None
    ts: int | None = None
    expires: int | None = None
    fields: Mapping[str, FieldValue] | None = field(default=None, hash=False)

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            id: str | int,
            lon: float,
            lat: float,
            text: str | None = None,
            keywords: Iterable[str] | None = None,
            ts: TimeValue | None = None,
            expires: TimeValue | None = None,
            fields: Mapping[str, Any] | str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        # Values that need no care are told apart here, without a call: streams make millions of messages.
        put = object.__setattr__
        given: Any = self.id
        if type(given) is not str or not given.isascii():
            put(self, "id", identity("id", given))
        if type(self.lon) is not float or not isfinite(self.lon):
            put(self, "lon", number("lon", self.lon))
        if type(self.lat) is not float or not isfinite(self.lat):
            put(self, "lat", number("lat", self.lat))
        if self.keywords is not None:
            if self.text is not None:
                raise InvalidInput("keywords", self.keywords, "must be left out when text is given")
            put(self, "keywords", _kept_keywords(self.keywords))
        elif self.text is None:
            raise InvalidInput("text", None, "is required when there are no keywords")
        elif type(self.text) is not str or not self.text.isascii():
            put(self, "text", string("text", self.text))
        if self.ts is not None and (type(self.ts) is not int or not -LAST_INSTANT <= self.ts <= LAST_INSTANT):
            put(self, "ts", optional_instant("ts", self.ts))
        if self.expires is not None:
            put(self, "expires", optional_expiry("expires", self.expires))
        if self.fields is not None:
            put(self, "fields", fields_of(self.fields))

    @property
    def words(self) -> tuple[str, ...]:
        """Its words, repeats included."""
        if self.keywords is not None:
            return tuple(words_in(self.keywords))
        return tuple(words_of(self.text or ""))


def _kept_keywords(keywords: Sequence[str]) -> tuple[str, ...]:
    if is_a(keywords, str):
        return tuple(words_of(string("keywords", keywords)))
    return strings("keywords", keywords)
