"""Tokens become callers with scopes: keys of our own, which are stored hashed, or JWT."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from typing import Any

import jwt
import msgspec

from nearcast.errors import InvalidInput
from nearcast.server.access.store import Store
from nearcast.server.config import Config, Quotas
from nearcast.server.problems import Problem

PUBLISH, SUBSCRIBE, READ, ADMIN = SCOPES = ("publish", "subscribe:own", "read", "admin")


class Caller(msgspec.Struct, frozen=True):
    """Who asks: the name for quotas, what it may do, the prefix of its ids, and until when."""

    name: str
    scopes: frozenset[str]
    prefix: str = ""
    quotas: Quotas = Quotas()
    expires: float | None = None

    def require(self, scope: str) -> None:
        """Refuse a caller without this scope; `admin` has all of them."""
        if scope not in self.scopes and ADMIN not in self.scopes:
            raise Problem(403, "forbidden", f"the key has no scope {scope}", rule=f"must have the scope {scope}")

    def may_see(self, id: Any) -> bool:
        """Whether a subscription is its own, or it may read all."""
        return READ in self.scopes or ADMIN in self.scopes or self.owns(id)

    def owns(self, id: Any) -> bool:
        """Whether an id begins with its prefix."""
        return not self.prefix or str(id).startswith(self.prefix)

    def require_own(self, id: Any) -> None:
        """Refuse ids of others."""
        if not self.owns(id):
            rule = f"must begin with {self.prefix!r}, the prefix of the key"
            raise Problem(403, "forbidden", f"id {rule}", field="id", value=str(id), rule=rule)

    def require_sight(self, id: Any) -> None:
        """Refuse to show what others ask."""
        if not self.may_see(id):
            self.require_own(id)


class Auth:
    """The keys of a server."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config
        self._keys = {row["id"]: row for row in store.rows("SELECT * FROM keys")}

    @property
    def is_open(self) -> bool:
        """Whether no key is asked for, as on the loopback before the first one is made."""
        return not self._keys and self._config.jwt is None

    def caller(self, token: str | None) -> Caller:
        """Who holds this token.

        Raises
        ------
        Problem
            401 if there is none, or it is not valid.
        """
        if not token:
            if self.is_open:
                return Caller("anybody", frozenset(SCOPES), quotas=self._config.quotas)
            raise Problem(401, "unauthorized", "a key is needed: Authorization: Bearer nc_...")
        if token.startswith("nc_"):
            return self._by_key(token)
        if self._config.jwt is not None:
            return self._by_jwt(token)
        raise Problem(401, "unauthorized", "the key is not valid")

    def _by_key(self, token: str) -> Caller:
        row = self._keys.get(token.removeprefix("nc_").partition("_")[0])
        if row is None or not hmac.compare_digest(row["hash"], _hash(token)):
            raise Problem(401, "unauthorized", "the key is not valid")
        quotas = msgspec.json.decode(row["quotas"], type=Quotas | None) or self._config.quotas
        return Caller(row["id"], frozenset(row["scopes"].split()), row["prefix"], quotas)

    def _by_jwt(self, token: str) -> Caller:
        rules = self._config.jwt
        assert rules is not None
        try:
            claims = jwt.decode(
                token,
                rules.key,
                algorithms=rules.algorithms,
                audience=rules.audience,
                issuer=rules.issuer,
                options={"require": ["exp", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Problem(401, "unauthorized", f"the token is not valid: {error}") from None
        scopes = frozenset(str(claims.get("scope", "")).split()) & frozenset(SCOPES)
        prefix = str(claims.get("prefix", ""))
        return Caller(f"jwt:{claims['sub']}", scopes, prefix, self._config.quotas, float(claims["exp"]))

    def add(self, name: str, scopes: Iterable[str], prefix: str = "", quotas: Quotas | None = None) -> str:
        """Make a key; it is shown this once.

        Raises
        ------
        InvalidInput
            For a scope that is none.
        """
        wanted = list(scopes)
        for scope in wanted:
            if scope not in SCOPES:
                raise InvalidInput("scopes", scope, f"must be of {', '.join(SCOPES)}")
        if not wanted:
            raise InvalidInput("scopes", wanted, f"must be of {', '.join(SCOPES)}")
        id = secrets.token_hex(4)
        token = f"nc_{id}_{secrets.token_urlsafe(24)}"
        row: dict[str, Any] = {
            "id": id,
            "hash": _hash(token),
            "name": name,
            "scopes": " ".join(wanted),
            "prefix": prefix,
        }
        row |= {"quotas": msgspec.json.encode(quotas).decode(), "created": time.time()}
        self._store.run(f"INSERT INTO keys ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())
        self._keys[id] = row
        return token

    def remove(self, id: str) -> bool:
        """Take a key back; returns whether there was one."""
        return self._keys.pop(id, None) is not None and self._store.run("DELETE FROM keys WHERE id = ?", id) > 0

    def listed(self) -> list[dict[str, Any]]:
        """The keys, without what would open anything."""
        shown = ("id", "name", "prefix", "created")
        return [{**{name: row[name] for name in shown}, "scopes": row["scopes"].split()} for row in self._keys.values()]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(header: str | None) -> str | None:
    """The token of an `Authorization` header."""
    kind, _, token = (header or "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None
