"""The HTTP client towards a server: it adds nothing of its own, bounds everything, and fails with a reason."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

import aiohttp
from yarl import URL

from callgate.config import Server
from callgate.errors import Reason, UpstreamError
from callgate.gateway.sse import Event, EventCutter

# Most servers close an idle connection after five seconds; leaving first avoids writing into a closing one.
_KEEPALIVE: Final = 4.0
_COPY_AT_ONCE: Final = 512 * 1024

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class HttpClient:
    """One server's endpoint."""

    def __init__(self, server: Server, max_bytes: int) -> None:
        assert server.url is not None
        self.own_headers = {name: value.reveal() for name, value in server.headers.items()}
        self._url = URL(server.url.reveal(), encoded=True)
        self._patience = server.timeout_seconds
        self._max = max_bytes
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE),
            # A relay must not keep one user's cookies for the next, follow a redirect around the gate, or change bytes.
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=None, sock_connect=server.connect_seconds, sock_read=None
            ),
            trust_env=False,
            max_line_size=65536,
            max_field_size=65536,
        )

    async def close(self) -> None:
        await self._session.close()

    async def open(self, method: str, body: bytes | None, headers: Headers) -> aiohttp.ClientResponse:
        """Send a request and wait for the head of the answer."""
        data = body if body is None or len(body) <= _COPY_AT_ONCE else io.BytesIO(body)
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._session.request(
                    method, self._url, data=data, headers=headers, allow_redirects=False
                )
        except aiohttp.ClientConnectorError as error:
            text = error.os_error.strerror or type(error.os_error).__name__
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, f"cannot connect to the server: {text}") from None
        except aiohttp.ConnectionTimeoutError:
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, "connecting to the server took too long") from None
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None
        except (aiohttp.ClientError, ValueError):
            raise UpstreamError(Reason.UPSTREAM_GARBAGE) from None
        if 300 <= answer.status < 400 and answer.status != 304:
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_REDIRECT)
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_ENCODING)
        return answer

    async def read(self, answer: aiohttp.ClientResponse) -> bytes:
        """The whole of an answer that is not a stream."""
        if answer.content_length is not None and answer.content_length > self._max:
            raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        content = answer.content
        try:
            async with asyncio.timeout(self._patience):
                body = await content.readany()
                if content.at_eof():
                    return body
                parts = [body]
                size = len(body)
                while not content.at_eof():
                    parts.append(await content.readany())
                    size += len(parts[-1])
                    if size > self._max:
                        raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
                return b"".join(parts)
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None
        except (aiohttp.ClientError, ConnectionError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None

    async def events(self, answer: aiohttp.ClientResponse) -> AsyncIterator[Event]:
        """The events of a stream as they come; raises where it breaks off."""
        cutter = EventCutter(self._max)
        try:
            async for chunk in answer.content.iter_any():
                for event in cutter.feed(chunk):
                    yield event
        except (aiohttp.ClientError, ConnectionError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None


def is_stream(answer: aiohttp.ClientResponse) -> bool:
    return answer.status < 300 and answer.content_type == "text/event-stream"
