"""What a server is told: options of the command line, and a file in TOML with the same names and a few more."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from nearcast.errors import InvalidInput

WORLD = (-180.0, -90.0, 180.0, 90.0)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
DAY_S = 86_400.0


class Quotas(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What one caller may use; None is without a limit."""

    subscriptions: int | None = None
    hits_per_hour: float | None = None  # that one subscription may be expected to have
    messages_per_second: float | None = None
    connections: int | None = None
    webhooks: int | None = None


class Jwt(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whose tokens are taken: a secret or a public key in PEM, and what a token must say."""

    key: str
    algorithms: list[str]
    audience: str | None = None
    issuer: str | None = None


class Config(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """All settings of a server."""

    data: str
    host: str = "127.0.0.1"
    port: int = 8787
    space: tuple[float, float, float, float] | None = None
    metric: Literal["haversine", "euclidean"] | None = None
    max_distance: float | None = None
    window_count: int | None = None
    window_age: float | None = None
    stop_words: str | None = None
    stemmer: str | None = None
    accents: Literal["keep", "fold"] | None = None
    cjk: Literal["whole", "bigrams"] | None = None
    threads: int = 1  # cores that matching may use
    clock: Literal["event", "wall"] = "wall"
    pipeline: str | None = None  # folder of a run on Spark that this server stands in front of
    basemap: str | None = None  # a file of PMTiles that the page draws
    allow_private_webhooks: bool = False
    hosts: list[str] = []  # names by which it is called, beside that of the loopback
    origins: list[str] = []  # pages of other servers that may call it
    jwt: Jwt | None = None
    quotas: Quotas = Quotas()  # of callers whose key names none
    max_body_bytes: int = 16 * 2**20
    max_rows: int = 10_000
    heartbeat_s: float = 15.0
    unread_s: float = 30.0
    pending_bytes: int = 256 * 1024
    segment_bytes: int = 64 * 2**20
    updates_bytes: int = 2**30
    webhook_retries_s: tuple[float, ...] = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)  # 75 hours in all

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK or self.host.startswith("127.")


def load(path: str | None, given: dict[str, Any]) -> Config:
    """The settings of a file, and those of the command line over them.

    Raises
    ------
    InvalidInput
        For a file that is not TOML, and for a setting that is not known or of another type.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput("--config", path, f"must be a file in TOML ({error})") from None
    values |= {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise InvalidInput("--config", path, f"must fit: {error}") from None
