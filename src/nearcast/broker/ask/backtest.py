"""Past messages go through a broker: what each subscriber would have heard, and how much of it a day."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.broker.broker import Broker
from nearcast.broker.in_turn import take_in_turn
from nearcast.columns.arrow_rows import as_table, parts_of
from nearcast.columns.times import whole_times
from nearcast.columns.updates import Updates
from nearcast.errors import InvalidInput
from nearcast.model.analyzer import Analyzer
from nearcast.model.frames import size_of
from nearcast.model.message import Message
from nearcast.model.rows import MessageRows, SubscriptionRows
from nearcast.space.space import Space
from nearcast.text.weights import Weights
from nearcast.window.window import Window
from nearcast.work_progress import Progress, watch

if TYPE_CHECKING:
    from nearcast.columns.shown import PandasFrame

_LEFT, _WIDTH, _HEIGHT = 60, 820, 160


def backtest(
    subscriptions: SubscriptionRows,
    messages: MessageRows,
    *,
    space: Space,
    window: Window | None = None,
    weights: Weights | None = None,
    analyzer: Analyzer | None = None,
    progress: Progress = None,
) -> Backtest:
    """What each subscription would have heard if it had been there from the first message on.

    Parameters
    ----------
    subscriptions
        Rows as `Broker.subscribe_many` takes them. One that cannot be honoured raises.
    messages
        Rows as `Broker.publish` takes them, published in the order of `ts`; a stream is ordered batch by batch.
    space, window, weights, analyzer
        As for a `Broker`. `TopK` needs a window.
    progress
        As for `Broker.publish`; it counts messages.

    Examples
    --------
    >>> import nearcast as nc
    >>> day = 86_400_000
    >>> past = [nc.Message(n, 5, 5, "ramen", ts=n * day // 2) for n in range(4)]
    >>> space = nc.Space((0, 0, 10, 10), metric="euclidean")
    >>> heard = nc.backtest([("ann", nc.Within(nc.Box(0, 0, 9, 9), "ramen"))], past, space=space)
    >>> heard.per_day["alerts"].to_pylist()
    [2, 2]
    """
    broker = Broker(space, window, weights, analyzer=analyzer)
    refused = broker.subscribe_many(subscriptions, progress=False).rejects
    if refused:
        raise InvalidInput(
            "subscriptions", refused[0].row, f"must all be honoured; row {refused[0].row}: {refused[0].reason}"
        )
    ids = broker.subscription_ids
    work = watch("backtest", progress, size_of(messages))
    parts = parts_of("messages", messages, space.metric == "haversine")
    heard = take_in_turn(parts, lambda part, _: broker.publish(_by_time(part), progress=work.told), work)
    return Backtest(ids, Updates.in_turn(heard) if heard else broker.publish([]))


def _by_time(part: Any) -> Any:
    """Rows in the order of their times, as far as they can be compared."""
    table = as_table("messages", part)
    if table is None:
        listed = list(part)
        timed = all(isinstance(row, Message) and row.ts is not None for row in listed)
        return sorted(listed, key=lambda message: message.ts) if timed else listed
    table = whole_times(table)
    column = table.schema.field("ts").type if "ts" in table.column_names else pa.null()
    ordered = pa.types.is_integer(column) or pa.types.is_timestamp(column)
    return table.take(pc.sort_indices(table["ts"])) if ordered else table


class Backtest:
    """What subscriptions would have heard.

    Attributes
    ----------
    updates
        All of it, as a broker tells it, with `rejects` and `late` rows of the messages.
    """

    def __init__(self, ids: pa.Array, updates: Updates) -> None:
        self._ids = ids
        self.updates = updates

    def to_arrow(self) -> pa.Table:
        """The updates as a table: `subscription, message, sign, score, ts`."""
        return self.updates.to_arrow()

    def to_pandas(self) -> PandasFrame:
        """The updates as a frame of pandas."""
        return self.updates.to_pandas()

    @property
    def per_day(self) -> pa.Table:
        """`subscription, day, alerts`: how many ``+`` each would have heard on each day (UTC) on which it heard any."""
        table = self._alerts().group_by(["subscription", "day"]).aggregate([([], "count_all")])
        return table.rename_columns(["subscription", "day", "alerts"]).sort_by(
            [("subscription", "ascending"), ("day", "ascending")]
        )

    @property
    def summary(self) -> pa.Table:
        """`subscription, alerts, days, busiest`: in all, on how many days, and on the busiest one; quiet ones too."""
        days = self.per_day.group_by("subscription").aggregate(
            [("alerts", "sum"), ("alerts", "count"), ("alerts", "max")]
        )
        everyone = pa.table({"subscription": self._ids})
        table = everyone.join(days, "subscription").rename_columns(["subscription", "alerts", "days", "busiest"])
        counts = {name: pc.fill_null(table[name], 0) for name in ("alerts", "days", "busiest")}
        whole = pa.table({"subscription": table["subscription"], **counts})
        return whole.sort_by([("alerts", "descending"), ("subscription", "ascending")])

    def _alerts(self) -> pa.Table:
        table = self.updates.to_arrow()
        table = table.filter(pc.equal(table["sign"], "+"))
        day = table["ts"].cast(pa.timestamp("ms")).cast(pa.date32(), safe=False)
        return pa.table({"subscription": table["subscription"], "day": day})

    def plot(self, path: str | Path | None = None) -> Drawing:
        """Alerts of all subscriptions by day, as an SVG that notebooks show; also written to `path`, if given."""
        drawing = Drawing(self._svg())
        if path is not None:
            Path(path).write_text(drawing.svg, encoding="utf-8")
        return drawing

    def _svg(self) -> str:
        days = self._alerts().group_by("day").aggregate([([], "count_all")]).sort_by("day")
        counts = dict(zip(days["day"].cast(pa.int32()).to_pylist(), days["count_all"].to_pylist(), strict=True))
        names = dict(zip(counts, (str(day) for day in days["day"].to_pylist()), strict=True))
        first, last = (min(counts), max(counts)) if counts else (0, 0)
        most, step = max(counts.values(), default=1), _WIDTH / (last - first + 1)
        bars = []
        for day, n in counts.items():
            high, x = _HEIGHT * n / most, _LEFT + (day - first) * step
            title = escape(f"{names[day]}: {n} alerts")
            bars.append(
                f'<rect x="{x:.2f}" y="{40 + _HEIGHT - high:.2f}" width="{max(0.9 * step, 0.5):.2f}" '
                f'height="{high:.2f}" fill="#1f6feb"><title>{title}</title></rect>'
            )
        told = f"{sum(counts.values())} alerts to {len(self._ids)} subscriptions, by day"
        ends = [(_LEFT, "start", names.get(first, "")), (_LEFT + _WIDTH, "end", names.get(last, ""))]
        marks = [f'<text x="{x}" y="{_HEIGHT + 58}" text-anchor="{anchor}">{text}</text>' for x, anchor, text in ends]
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {_HEIGHT + 70}" role="img" '
                'font-family="sans-serif" font-size="12">',
                f"<title>{told}</title>",
                f'<rect width="900" height="{_HEIGHT + 70}" fill="white"/>',
                f'<text x="{_LEFT}" y="24" font-size="15">{told}</text>',
                f'<text x="{_LEFT - 8}" y="50" text-anchor="end">{most if counts else 0}</text>',
                f'<text x="{_LEFT - 8}" y="{_HEIGHT + 40}" text-anchor="end">0</text>',
                *bars,
                *marks,
                "</svg>\n",
            ]
        )

    def __repr__(self) -> str:
        return f"<Backtest of {len(self._ids)} subscriptions: {self._alerts().num_rows} alerts>"


class Drawing:
    """A picture as SVG, which notebooks show."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg
