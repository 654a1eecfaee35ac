"""What a subscriber asks becomes a `Within`, `Similar`, `TopK` or `Nearest`, and with an id a `Subscription`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nearcast.errors import InvalidInput
from nearcast.model.analyzer import Analyzer
from nearcast.model.checks import flag, identity, is_a, number, one_of, plain_copy, string, strings, unit, whole
from nearcast.model.condition import parse_condition
from nearcast.model.expression import Clause, clauses, parse
from nearcast.model.geojson import RegionValue, as_region
from nearcast.model.instant import Duration, TimeValue, half_life, optional_expiry
from nearcast.model.malformed import hint_at_operators, refuse_marks
from nearcast.model.region import Region
from nearcast.model.words import words_in, words_of

MEASURES = ("weighted", "overlap", "jaccard", "dice", "cosine")
MATCHES = ("all", "any")
MAX_K = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Within:
    """Every message in a region whose words satisfy an expression.

    Parameters
    ----------
    region
        A `Box`, `Circle`, `Polygon` or `MultiPolygon`; a bbox of four numbers, GeoJSON, or anything with a
        `__geo_interface__`, such as a geometry of shapely, becomes one.
    keywords
        A list (all of them must be there; folded, not cut) or an expression: ``"fire OR smoke"``. In an expression
        ``"new york"`` in quotes asks for these words side by side, and ``fire*`` for any word that starts so.
    backfill
        Whether messages live at registration count.
    where
        What the fields of a message must satisfy: ``"price < 100 AND category IN ('food', 'drink')"``.

    Raises
    ------
    InvalidInput
        For a region of another type, no keywords, or a malformed expression.

    Examples
    --------
    >>> Within((-74.0, 40.7, -73.9, 40.8), "fire AND NOT camp").clauses
    (Clause(positive=('fire',), negative=('camp',)),)
    """

    kind: ClassVar[str] = "within"
    region: Region
    keywords: str | Sequence[str]
    backfill: bool = True
    where: str | None = None
    clauses: tuple[Clause, ...] = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            region: RegionValue,
            keywords: str | Iterable[str],
            backfill: bool = True,
            where: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "region", as_region(self.region))
        put(self, "keywords", _kept_keywords(self.keywords))
        if isinstance(self.keywords, str):
            put(self, "clauses", clauses(parse(self.keywords)))
            hint_at_operators(self.keywords)
        else:
            refuse_marks(self.keywords)
            put(self, "clauses", (Clause(tuple(sorted(set(_words(self.keywords)))), ()),))
        put(self, "backfill", flag("backfill", self.backfill))
        put(self, "where", _kept_where(self.where))

    @property
    def words(self) -> tuple[str, ...]:
        """Every word, phrase and prefix that its clauses ask for or forbid, once, in order."""
        return tuple(sorted({word for clause in self.clauses for word in clause.positive + clause.negative}))


@dataclass(frozen=True, slots=True)
class Similar:
    """Every message for which ``delta * tsim + (1 - delta) * ssim >= tau``.

    Parameters
    ----------
    lon, lat
        The subscriber's place.
    keywords
        A list of words (folded, not cut) or plain text.
    delta
        How much the text counts against the place, from 0 to 1.
    tau
        The threshold, from 0 to 1.
    measure
        How texts are compared: one of `MEASURES`.
    backfill
        Whether messages live at registration count.
    where
        What the fields of a message must satisfy: ``"price < 100 AND category IN ('food', 'drink')"``.

    Raises
    ------
    InvalidInput
        For a value of the wrong type or range, and for no keywords.
    """

    kind: ClassVar[str] = "similar"
    lon: float
    lat: float
    keywords: str | Sequence[str]
    delta: float
    tau: float
    measure: str = "weighted"
    backfill: bool = True
    where: str | None = None
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_place_and_words(self)
        object.__setattr__(self, "delta", unit("delta", self.delta))
        object.__setattr__(self, "tau", unit("tau", self.tau))
        object.__setattr__(self, "measure", one_of("measure", self.measure, MEASURES))


@dataclass(frozen=True, slots=True)
class TopK:
    """The k live messages with the highest ``alpha * ssim + (1 - alpha) * cos`` among those that share a word.

    Parameters
    ----------
    lon, lat
        The subscriber's place.
    keywords
        A list of words (folded, not cut) or plain text. Repeats count.
    k
        How many, at least 1.
    alpha
        How much the place counts against the text, from 0 to 1.
    backfill
        Whether messages live at registration count.
    where
        What the fields of a message must satisfy: ``"price < 100 AND category IN ('food', 'drink')"``.
    decay
        A half-life in seconds, or as a timedelta: the score of a message halves each time that it has passed since its
        `ts`. In whole milliseconds. None: scores stay as they are.

    Raises
    ------
    InvalidInput
        For a value of the wrong type or range, and for no keywords.

    Examples
    --------
    >>> TopK(lon=-73.98, lat=40.75, keywords="ramen, sushi & ramen").words
    ('ramen', 'sushi', 'ramen')
    """

    kind: ClassVar[str] = "topk"
    lon: float
    lat: float
    keywords: str | Sequence[str]
    k: int = 20
    alpha: float = 0.5
    backfill: bool = True
    where: str | None = None
    decay: float | None = None
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            lon: float,
            lat: float,
            keywords: str | Sequence[str],
            k: int = 20,
            alpha: float = 0.5,
            backfill: bool = True,
            where: str | None = None,
            decay: Duration | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_place_and_words(self)
        object.__setattr__(self, "k", whole("k", self.k, 1, MAX_K))
        object.__setattr__(self, "alpha", unit("alpha", self.alpha))
        if self.decay is not None:
            object.__setattr__(self, "decay", half_life("decay", self.decay))


@dataclass(frozen=True, slots=True)
class Nearest:
    """The k nearest live messages that hold all, or any, of the words.

    Parameters
    ----------
    lon, lat
        The subscriber's place.
    keywords
        A list of words (folded, not cut) or plain text.
    k
        How many, at least 1.
    match
        ``"all"`` or ``"any"``.
    backfill
        Whether messages live at registration count.
    where
        What the fields of a message must satisfy: ``"price < 100 AND category IN ('food', 'drink')"``.

    Raises
    ------
    InvalidInput
        For a value of the wrong type or range, and for no keywords.
    """

    kind: ClassVar[str] = "nearest"
    lon: float
    lat: float
    keywords: str | Sequence[str]
    k: int = 10
    match: str = "all"
    backfill: bool = True
    where: str | None = None
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_place_and_words(self)
        object.__setattr__(self, "k", whole("k", self.k, 1, MAX_K))
        object.__setattr__(self, "match", one_of("match", self.match, MATCHES))


Query = Within | Similar | TopK | Nearest
QUERIES: dict[str, type[Query]] = {query.kind: query for query in (Within, Similar, TopK, Nearest)}


@dataclass(frozen=True, slots=True)
class Subscription:
    """A query that stands under an id, until it expires or is taken back.

    Parameters
    ----------
    id
        A string, or an int of 64 bits; unique among subscriptions.
    query
        A `Within`, `Similar`, `TopK` or `Nearest`.
    expires
        When it ends: epoch milliseconds, a datetime or whatever else a message's `ts` may be; None means never.

    Raises
    ------
    InvalidInput
        For a value of the wrong type or range.
    """

    id: str | int
    query: Query
    expires: int | None = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(self, id: str | int, query: Query, expires: TimeValue | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identity("id", self.id))
        query = plain_copy("query", self.query, (Within, Similar, TopK, Nearest))
        if query is None:
            raise InvalidInput("query", self.query, "must be a Within, Similar, TopK or Nearest")
        object.__setattr__(self, "query", query)
        if self.expires is not None:
            object.__setattr__(self, "expires", optional_expiry("expires", self.expires))


def clauses_by(query: Within, analyzer: Analyzer) -> tuple[Clause, ...]:
    """The clauses of a query whose words go through an analyzer.

    Raises
    ------
    InvalidInput
        Field ``keywords``, if nothing is left of an operand or of all items.
    """
    if analyzer.is_plain:
        return query.clauses
    if isinstance(query.keywords, str):
        return clauses(parse(query.keywords, analyzer))
    return (Clause(tuple(sorted(set(analyzer.items(query.keywords)))), ()),)


def words_by(query: Similar | TopK | Nearest, analyzer: Analyzer) -> tuple[str, ...]:
    """The words of a query that go through an analyzer; raises as `clauses_by` does."""
    if analyzer.is_plain:
        return query.words
    given = query.keywords
    words = analyzer.words(given) if isinstance(given, str) else analyzer.items(given)
    if not words:
        raise InvalidInput("keywords", given, "must hold at least one word that is no stop word")
    return tuple(words)


def _check_place_and_words(query: Similar | TopK | Nearest) -> None:
    put = object.__setattr__
    put(query, "lon", number("lon", query.lon))
    put(query, "lat", number("lat", query.lat))
    put(query, "keywords", _kept_keywords(query.keywords))
    refuse_marks(query.keywords)
    put(query, "words", _words(query.keywords))
    put(query, "backfill", flag("backfill", query.backfill))
    put(query, "where", _kept_where(query.where))


def _kept_where(where: Any) -> str | None:
    return None if where is None else parse_condition(where).text


def _kept_keywords(keywords: Any) -> str | tuple[str, ...]:
    if keywords is None:
        raise InvalidInput("keywords", None, "is required")
    return string("keywords", keywords) if is_a(keywords, str) else strings("keywords", keywords)


def _words(keywords: str | Sequence[str]) -> tuple[str, ...]:
    words = words_of(keywords) if isinstance(keywords, str) else words_in(keywords)
    if not words:
        raise InvalidInput("keywords", keywords, "must hold at least one word")
    return tuple(words)
