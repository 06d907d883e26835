"""How much of Callgate one call runs through: modules, functions, classes, changes of package, readings of a reply.

It starts the gateway as shipped in this process: HTTP in front, an HTTP echo server behind it, SQLite, tools reviewed,
trust and approval on, and only a listed agent that signs is let in. After some calls to warm up it sends one
`tools/call` and one `tools/list` and traces what runs from the arrival of the bytes until the task that answers is
done.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ROOT: Final = Path(__file__).resolve().parent.parent
SERVER: Final = "echo"
OURS: Final = "callgate"
# Calls ahead of the one that is traced: what is looked up once a second, or when somebody changed something, is known.
_WARM_UP: Final = 20
# What the task that answers a request begins with.
_ANSWERING: Final = RequestResponseCycle.run_asgi.__code__
# Frames that are part of a function and none of their own.
_INNER: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"})


@dataclass(frozen=True)
class Entered:
    """A function of ours that was entered, and how deep below others of ours."""

    module: str
    function: str
    depth: int

    @property
    def package(self) -> str:
        """The first name below `callgate`."""
        return self.module.removeprefix(OURS).lstrip(".").partition(".")[0]

    @property
    def owner(self) -> str | None:
        """The class whose method it is."""
        owner = self.function.rpartition(".")[0]
        return None if not owner or owner.endswith("<locals>") else f"{self.module}.{owner}"


@dataclass
class Trace:
    """What ran for one request."""

    loop: list[Entered] = field(default_factory=list)
    elsewhere: list[Entered] = field(default_factory=list)
    # Function and size of each piece of JSON that was decoded, and holds what is looked for.
    decoded: list[tuple[str, int]] = field(default_factory=list)

    def figures(self) -> dict[str, int]:
        ran = self.loop
        return {
            "modules": len({one.module for one in ran}),
            "functions": len({(one.module, one.function) for one in ran}),
            "classes": len({one.owner for one in ran} - {None}),
            "package changes": sum(one.package != two.package for one, two in pairwise(ran)),
            "calls": len(ran),
            "functions on other threads": len({(one.module, one.function) for one in self.elsewhere}),
        }

    def readings(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for function, size in self.decoded:
            found.setdefault(function, []).append(size)
        return found


class Tracer:
    """A profile function for every thread. It notes one request at a time, once it is armed."""

    def __init__(self) -> None:
        self._armed: Trace | None = None
        self._trace: Trace | None = None
        self._marker = b""
        self._seen: set[FrameType] = set()
        self._before: set[Any] = set()
        self._loop_thread = 0
        self._done = threading.Event()

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def remove(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def during(self, send: Callable[[], object], marker: bytes = b"") -> Trace:
        """What the request that `send` sends makes run; `marker` is what decoded JSON has to hold to be counted."""
        trace = Trace()
        self._done.clear()
        self._marker, self._armed = marker, trace
        send()
        if not self._done.wait(30):
            raise TimeoutError("the request was answered, but its task never ended")
        return trace

    def decodes(self, frame: FrameType, data: bytes) -> None:
        """A function decodes JSON."""
        trace, module = self._trace, frame.f_globals.get("__name__", "")
        if trace is not None and self._marker and self._marker in data and module.startswith(OURS):
            trace.decoded.append((f"{module}.{frame.f_code.co_qualname}", len(data)))

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or (self._trace is None and self._armed is None):
            return
        if self._trace is None and _takes_bytes(frame):
            self._trace, self._armed = self._armed, None
            self._loop_thread = threading.get_ident()
            self._before = asyncio.all_tasks(asyncio.get_running_loop())
            self._seen = set()
        trace = self._trace
        if trace is None:
            return
        on_loop = threading.get_ident() == self._loop_thread
        if on_loop:
            task = asyncio.current_task()
            if task in self._before:
                # Somebody else's work, that only happens to run now.
                return
            if task is not None and frame.f_code is _ANSWERING:
                task.add_done_callback(self._end)
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        # A coroutine that goes on is the call that it was.
        if not (module == OURS or module.startswith(OURS + ".")) or code.co_name in _INNER or frame in self._seen:
            return
        self._seen.add(frame)
        entered = Entered(module, code.co_qualname, self._depth(frame.f_back))
        (trace.loop if on_loop else trace.elsewhere).append(entered)

    def _depth(self, frame: FrameType | None) -> int:
        depth = 0
        while frame is not None:
            depth += frame in self._seen
            frame = frame.f_back
        return depth

    def _end(self, _task: object) -> None:
        self._trace = None
        self._seen = set()
        self._done.set()


def _takes_bytes(frame: FrameType) -> bool:
    """Whether the bytes of a client arrive here."""
    return frame.f_code.co_name == "data_received" and isinstance(frame.f_locals.get("self"), HttpToolsProtocol)


def count_decodes(tell: Callable[[FrameType, bytes], None]) -> None:
    """Have every reading of JSON told, for modules that are imported afterwards."""
    decoder, loads, decode, scan = msgspec.json.Decoder, json.loads, msgspec.json.decode, json.JSONDecoder.raw_decode

    def told(data: Any) -> None:
        tell(sys._getframe(2), data.encode() if isinstance(data, str) else bytes(data))

    class Decoder:
        def __init__(self, *given: Any, **options: Any) -> None:
            self._decode = decoder(*given, **options).decode

        def __class_getitem__(cls, _kind: object) -> type:
            return cls

        def decode(self, data: Any) -> Any:
            told(data)
            return self._decode(data)

    @functools.wraps(loads)
    def load(data: Any, **options: Any) -> Any:
        told(data)
        return loads(data, **options)

    def read(data: Any, **options: Any) -> Any:
        told(data)
        return decode(data, **options)

    def raw_decode(self: json.JSONDecoder, text: str, idx: int = 0) -> tuple[Any, int]:
        value, end = scan(self, text, idx)
        told(text[idx:end])
        return value, end

    for place, name, counting in (
        (msgspec.json, "Decoder", Decoder),
        (msgspec.json, "decode", read),
        (json, "loads", load),
        (json.JSONDecoder, "raw_decode", raw_decode),
    ):
        setattr(place, name, counting)


SEED: Final = b"the tracer's key, and no other's".hex()
# Stands in the text of the tool that is listed, and nowhere else.
MARKER: Final = b"Gives back the text"


def prepare(stack: ExitStack, folder: Path, port: int) -> Path:
    """The configuration of a gateway, its server started and its tool reviewed."""
    import echo_core
    from callgate.pinning.identity import reported_as
    from signed_load import signer
    from subjects import start_echo
    from support.gateway import review_ahead, write_config

    known = {"jwk": dict(signer(SEED).jwk), "allow_tools": ["echo"], "per_minute": 1000}
    config = write_config(
        folder,
        {SERVER: {"url": start_echo(stack, folder)}},
        gateway={"listen": f"127.0.0.1:{port}"},
        store={"keys_dir": str(folder / "keys")},
        agents={"mode": "required", "known": {"tracer": known}},
    )
    review_ahead(config, {SERVER: echo_core.TOOLS}, reported=reported_as(**echo_core.SERVER_INFO))
    return config


def send(url: str, method: str, params: dict[str, Any]) -> None:
    """One signed request of the era without sessions."""
    from signed_load import signing
    from support.raw import JSON_HEADERS, ask
    from wire import MODERN, MODERN_META

    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": MODERN_META}}
    body = msgspec.json.encode(message)
    headers = JSON_HEADERS | {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    headers |= {"Mcp-Name": params["name"]} if "name" in params else {}
    reply = ask(url, body, headers | signing(url, SEED)(body))
    if b'"result"' not in reply.body:
        raise RuntimeError(f"{method} was refused: {reply.body.decode()}")


def trace() -> dict[str, Trace]:
    """A call and a list, each traced after one that warmed everything up."""
    sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]
    tracer = Tracer()
    count_decodes(tracer.decodes)
    # Only now: what was imported before is not counted.
    from callgate.cli import run
    from processes import free_port

    found: dict[str, Trace] = {}
    failed: list[Exception] = []
    # No call has the text of another: what is known of one saves nothing in the next.
    calls = [{"name": "echo", "arguments": {"text": f"a text of its own, {n}"}} for n in range(_WARM_UP + 1)]
    port = free_port()

    def work() -> None:
        url = f"http://127.0.0.1:{port}/servers/{SERVER}/mcp"
        try:
            until_listening(port)
            for method, wanted, marker in (("tools/call", calls, b""), ("tools/list", [{}] * len(calls), MARKER)):
                for params in wanted[:-1]:
                    send(url, method, params)
                found[method] = tracer.during(functools.partial(send, url, method, wanted[-1]), marker)
        except Exception as error:  # noqa: BLE001 - told by the thread that waits for it
            failed.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        config = prepare(stack, folder, port)
        tracer.install()
        stack.callback(tracer.remove)
        client = threading.Thread(target=work)
        client.start()
        with (folder / "said").open("w") as said, redirect_stdout(said), redirect_stderr(said):
            run(["serve", "-c", str(config)])
        client.join()
        if failed:
            raise SystemExit(f"{failed[0]}\n{(folder / 'said').read_text()}")
    return found


def until_listening(port: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the gateway does not listen")


def show(found: dict[str, Trace], *, tree: bool) -> None:
    figures = {method: one.figures() for method, one in found.items()}
    print(f"{'':28}" + "".join(f"{method:>12}" for method in figures))
    for name in next(iter(figures.values())):
        print(f"{name:28}" + "".join(f"{one[name]:12}" for one in figures.values()))
    listed = found["tools/list"]
    print(f"\nThe reply to tools/list, or a part of it with a tool, is decoded {len(listed.decoded)} times:")
    for function, sizes in listed.readings().items():
        print(f"{len(sizes):4} x {function} ({', '.join(map(str, sizes))} bytes)")
    for method, one in found.items() if tree else ():
        print(f"\n{method}")
        for entered in one.loop:
            print("  " * entered.depth + f"{entered.module.removeprefix(OURS + '.')}: {entered.function}")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", action="store_true", help="show every call on the event loop, in its order")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args(arguments)
    found = trace()
    if chosen.json:
        print(
            json.dumps({method: one.figures() | {"decoded": one.readings()} for method, one in found.items()}, indent=1)
        )
    else:
        show(found, tree=chosen.tree)


if __name__ == "__main__":
    main(sys.argv[1:])
