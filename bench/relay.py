"""The baseline: a bare aiohttp relay, as any competent engineer would write one in half an hour.

One shared `ClientSession`; the request's bytes forwarded, the response streamed back chunk by chunk.
It checks nothing and records nothing.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping

import aiohttp
import uvloop
from aiohttp import web
from multidict import CIMultiDict

# RFC 9110 section 7.6.1: what belongs to one connection is not forwarded; Host and lengths are set anew.
NOT_FORWARDED = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
    }
)


def forwarded(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in NOT_FORWARDED)


class Relay:
    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    async def client(self, _: web.Application) -> AsyncIterator[None]:
        """An aiohttp cleanup context: the client session lives as long as the application."""
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            self._session = session
            yield

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with self._session.request(
            request.method, self._upstream, headers=forwarded(request.headers), data=body, allow_redirects=False
        ) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=forwarded(upstream.headers))
            response.content_length = upstream.content_length
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def application(upstream: str) -> web.Application:
    relay = Relay(upstream)
    app = web.Application()
    app.cleanup_ctx.append(relay.client)
    app.router.add_route("*", "/{path:.*}", relay.handle)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = parser.parse_args()
    loop = uvloop.new_event_loop() if options.loop == "uvloop" else asyncio.new_event_loop()
    web.run_app(
        application(options.upstream), host="127.0.0.1", port=options.port, loop=loop, access_log=None, print=None
    )


if __name__ == "__main__":
    main()
