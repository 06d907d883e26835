"""`callgate doctor` on the way in: the gateway that runs, its address, the console's, browsers and passkeys."""

from __future__ import annotations

import http.client
import socket
import webbrowser
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from callgate._version import __version__
from callgate.cli.doctor.findings import Finding, Setup, name_list, ok, sentence
from callgate.cli.gateway import ask_gateway, place_of
from callgate.cli.links import is_listening
from callgate.config import Address
from callgate.local.wrap import is_possible

_SECONDS: Final = 2.0
_BODY: Final = 400
# Browsers in a terminal know no passkeys.
_TEXT_BROWSERS: Final = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - told apart, not listened on


def gateway(setup: Setup) -> Iterator[Finding]:
    """Does the gateway run that wrapped servers share, and where is its console?"""
    if setup.url is not None or not is_possible():
        return
    found = ask_gateway(place_of(setup.file), "status")
    if found is None:
        # Where servers are configured, people may use `callgate serve` alone.
        if not setup.settings.servers:
            text = "Your gateway does not run, so nobody shows the console."
            yield Finding("note", text, "Both come with the first wrapped server, or now:", (setup.command("restart"),))
        return
    if setup.settings.has_console:
        setup.answers_at(str(found["address"]))
    if found["version"] != __version__:
        text = f"Your gateway is still Callgate {found['version']}, and this is {__version__}."
        yield Finding("warning", text, "", (setup.command("restart"),))
        return
    names = [str(server["name"]) for server in found["servers"]]
    wrapped = f"wrapped servers: {name_list(names)}" if names else "no server is wrapped at the moment"
    yield ok(f"Your gateway runs (process {found['pid']}); {wrapped}.")


def address(setup: Setup) -> Iterator[Finding]:
    """Is a gateway there, is the port free, or has something else taken it?"""
    config = setup.settings
    where = config.gateway.address
    if not config.servers:
        # Nothing is served by HTTP, and the gateway for wrapped servers takes the next port where this one is taken.
        yield from _free(setup, where._replace(port=0))
        return
    if not where.port:
        yield ok("The gateway takes any free port and names it when it starts.")
        return
    near = _ANY.get(where.host, where.host)
    try:
        status, body = _get(near, where.port, "/healthz")
    except ConnectionRefusedError:
        yield from _free(setup, where)
        return
    except (OSError, http.client.HTTPException):
        status, body = 0, ""
    if (status, body.strip()) != (200, "ok"):
        text = f"Something else than Callgate answers at {config.gateway.listen}."
        advice = "End it, or write another `listen` under [gateway]; for one run:"
        yield Finding("problem", text, advice, (f"{setup.serve()} --listen 127.0.0.1:0",))
        return
    status, body = _get(near, where.port, "/readyz")
    if status == 200:
        if config.has_console and config.approval.url is None:
            setup.answers_at(setup.console or f"http://localhost:{where.port}")
        yield ok(f"A gateway listens at {config.gateway.listen} and is ready.")
    else:
        text = f"The gateway at {config.gateway.listen} is not ready: {body.strip() or f'HTTP status {status}'}"
        yield Finding("problem", sentence(text), "Look at what it writes on stderr.")


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", path, headers={"Host": f"localhost:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.read(_BODY).decode("utf-8", "replace")
    finally:
        connection.close()


def _free(setup: Setup, where: Address) -> Iterator[Finding]:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        socket.create_server((where.host, where.port), family=family).close()
    except OSError as error:
        text = f"The gateway cannot listen at {setup.settings.gateway.listen}: {error.strerror or error}."
        yield Finding("problem", text, "Write another `listen` under [gateway]; above port 1024, anybody may.")
        return
    if setup.settings.servers:
        text = f"No gateway listens at {setup.settings.gateway.listen}; the port is free."
        advice = "Clients that use `callgate wrap` need none; for the others:"
        yield Finding("note", text, advice, (setup.serve(),))


def exposure(setup: Setup) -> Iterator[Finding]:
    """Who can reach the gateway, and do they have to say who they are?"""
    gateway, agents = setup.settings.gateway, setup.settings.agents
    if gateway.address.is_loopback:
        yield ok("Only programs of this machine reach the gateway.")
        return
    if not agents.kinds:
        text = f"{gateway.listen} can be reached from other machines, and nothing tells who calls."
        yield Finding("problem", text, "Write `enabled = true` under [agents.api_keys], or listen on 127.0.0.1.")
        return
    yield ok(f"Who calls {gateway.listen} from elsewhere has to prove who they are: {', '.join(agents.kinds)}.")
    if not (agents.external_url or "").startswith("https:"):
        text = "Nothing says that TLS stands in front of it: tokens and keys would travel in the clear."
        advice = "Put a proxy with TLS in front, and write its address as `external_url` under [agents]."
        yield Finding("warning", text, advice)


def console(setup: Setup) -> Iterator[Finding]:
    """Where people decide: can their browser get there, and use a passkey there?"""
    config = setup.settings
    if not config.has_console:
        yield Finding("note", "The console is off: nothing here needs a person.")
        return
    url = config.approval.url
    if url is None:
        if setup.console is not None:
            text = f"The console is at {setup.console}. Open it by this name: a browser takes no passkey for 127.0.0.1."
            yield ok(text)
        yield from _only_here(setup)
    elif is_listening(url):
        yield ok(f"The console's address {url} answers; passkeys are for {config.approval.rp_id}.")
    else:
        text = f"Nothing answers at {url}, where people are sent to approve calls."
        advice = f"Start the gateway, and let what stands at {urlsplit(url).hostname} pass requests on to it:"
        yield Finding("warning", text, advice, (setup.serve(),))


def _only_here(setup: Setup) -> Iterator[Finding]:
    if setup.settings.gateway.address.is_loopback:
        return
    text = "The gateway serves other machines, but its console can be used only on this one."
    advice = "Write `url` and `rp_id` under [approval], with the https address that people open."
    yield Finding("warning", text, advice)


def browser(setup: Setup) -> Iterator[Finding]:
    """Is there a browser to open pages with?"""
    if not setup.settings.has_console:
        return
    url = setup.settings.approval.url or setup.console
    try:
        name = str(getattr(webbrowser.get(), "name", "") or "the system's own")
    except webbrowser.Error:
        name = ""
    if name and name.rpartition("/")[2] not in _TEXT_BROWSERS:
        yield ok(f"Pages are opened with {name.rpartition('/')[2]}.")
        return
    text = "No browser can be opened on this machine; pages are only named."
    port = urlsplit(url).port if url else None
    if setup.settings.approval.url is None and port is not None:
        advice = f"On the machine in front of you, lead its port here, then open http://localhost:{port}/ there:"
        yield Finding("note", text, advice, (f"ssh -L {port}:localhost:{port} {socket.gethostname()}",))
    elif url is not None:
        yield Finding("note", text, "Open them on the machine in front of you.")
    else:
        yield Finding("note", text, "Start the gateway, and look again: then this says how to reach them.")
