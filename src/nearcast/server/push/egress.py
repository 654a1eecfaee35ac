"""Requests to addresses that others name: only to public ones, at the very address that was checked, no redirects.

A name may lead to another address when it is asked a second time. So the name is resolved here, every address it has
must be public, and the connection goes to one of those; TLS still checks the certificate of the name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore

from nearcast.errors import InvalidInput

_ANSWER_BYTES = 64 * 1024
_TIMEOUT_S = 15.0


class Refused(Exception):
    """An address that must not be reached."""


def check_url(url: str, allow_private: bool) -> str:
    """An address that a webhook may have.

    Raises
    ------
    InvalidInput
        If it is none, or shows at once that it is not public.
    """
    parts = urlsplit(url)
    schemes = ("https", "http") if allow_private else ("https",)
    if parts.scheme not in schemes or not parts.hostname:
        raise InvalidInput("url", url, f"must begin with {' or '.join(schemes)}:// and name a host")
    if parts.username or parts.password:
        raise InvalidInput("url", url, "must not hold a name or a password")
    if not allow_private and _is_address(parts.hostname) and not is_public(parts.hostname):
        raise InvalidInput("url", url, "must be a public address")
    return url


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    found: Any = ipaddress.ip_address(address.partition("%")[0])
    if found.version == 6:
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if inner is not None:
            found = inner
    return bool(found.is_global and not found.is_multicast and not found.is_reserved)


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects to checked addresses only."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check, connect to what was checked."""
        loop = asyncio.get_running_loop()
        try:
            found = await asyncio.wait_for(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM), timeout)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
        addresses = [str(each[4][0]) for each in found]
        if not self._allow_private:
            for address in addresses:
                if not is_public(address):
                    raise Refused(f"{host} leads to {address}, which is not public")
        return await self._inner.connect_tcp(addresses[0], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


class Egress:
    """Sends requests out."""

    def __init__(self, allow_private: bool) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=_Backend(allow_private), max_connections=100, keepalive_expiry=30.0
        )

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        """Status and headers of the answer; at most a little of its body is read.

        Raises
        ------
        Refused
            If the address is not public.
        OSError
            If there is no answer.
        """
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), _TIMEOUT_S)
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            async with (
                asyncio.timeout(2 * _TIMEOUT_S),
                self._pool.stream("POST", url, headers=given, content=body, extensions={"timeout": timeout}) as answer,
            ):
                read = 0
                async for chunk in answer.aiter_stream():
                    read += len(chunk)
                    if read > _ANSWER_BYTES:
                        break
                return answer.status, {name.decode().lower(): value.decode("latin-1") for name, value in answer.headers}
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, TimeoutError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close what is open."""
        await self._pool.aclose()
