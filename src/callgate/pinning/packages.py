"""Commands that fetch what they run: packages of npm, PyPI, JSR and Go, and container images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import structs

from callgate.pinning.launch import Beside, Launch, address, options, text, values, whole_line, words

# semver.org, with the `v` and `=` that npm takes before it.
_SEMVER: Final = re.compile(r"[v=]*(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)")
# PEP 440, loosely: enough to tell one version from a range.
_PEP440: Final = re.compile(r"v?(\d+!)?\d+(?:\.\d+)*[-_.a-zA-Z0-9]*(?:\+[a-zA-Z0-9._-]+)?")
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(.*)", re.DOTALL)
_GIT: Final = re.compile(r"(?:git\+)?((?:https?|ssh|git|file)://[^#\s]+?)(?:\.git)?(?:[@#]([^@#/]+))?(?:#.*)?")
_SHORT_GIT: Final = re.compile(r"(github|gitlab|bitbucket):([\w.-]+/[\w.-]+)(?:#(.+))?|([\w.-]+/[\w.-]+)(?:#(.+))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")

_NPX: Final = words(
    "-p --package -c --call --registry -w --workspace --userconfig --globalconfig --prefix --cache --loglevel "
    "--node-options --script-shell --cwd -C --dir"
)
_UV: Final = words(
    "--from --with --with-editable --with-requirements -w -p --python --index --default-index -i --index-url "
    "--extra-index-url -f --find-links -P --upgrade-package --reinstall-package --refresh-package --exclude-newer "
    "--resolution --prerelease -c --constraints -b --build-constraints --overrides --env-file --link-mode --cache-dir "
    "--color --directory --project --config-file --index-strategy --keyring-provider --python-platform "
    "--torch-backend --no-build-package --no-binary-package -C --config-setting --config-settings-package "
    "--fork-strategy --allow-insecure-host --no-build-isolation-package --exclude-newer-package --no-sources-package "
    "--extra --no-extra --group --no-group --only-group --package -m --module"
)
# Of uv's options those that decide which version it takes; `uv pip compile` knows them by the same names.
_UV_CHOOSING: Final = words(
    "--index --default-index -i --index-url --extra-index-url -f --find-links --exclude-newer --resolution "
    "--prerelease --index-strategy -p --python"
)
_PIPX: Final = words("--spec --python --pip-args -i --index-url --with --fetch-missing-python --backend")
# Of `docker run` and `podman run`: these stand alone, everything else takes a value.
_DOCKER_FLAGS: Final = words(
    "--detach --interactive --tty --rm --init --privileged --read-only --publish-all --no-healthcheck "
    "--oom-kill-disable --sig-proxy --disable-content-trust --quiet --help --replace --rmi --env-host --no-hosts "
    "--no-hostname --http-proxy --rootfs --tls-verify --unsetenv-all --passwd --read-only-tmpfs "
    "--use-api-socket"
)
_DOCKER_LETTERS: Final = frozenset("ditPq")
# Programs that only pass on what another server says: the identity is that of the other end.
_BRIDGES: Final = frozenset(
    {"mcp-remote", "mcp-proxy", "supergateway", "fastmcp", "mcp-remote-client", "@latitude-data/supergateway"}
)


def npm_exec(args: Sequence[str]) -> Launch | None:
    """What follows `npx`, `npm exec`, `pnpm dlx`, `yarn dlx`, `bunx`."""
    found, rest = options(args, _NPX)
    for line in values(found, "-c", "--call"):
        return text(line, "npx")
    named = values(found, "-p", "--package")
    specs = named or rest[:1]
    if not specs:
        return None
    registry = [address(url) for url in values(found, "--registry")[-1:]]
    beside: Beside = tuple(("from", one) for one in registry)
    start = _several([npm(spec) for spec in specs], beside + _target(specs, rest if named else rest[1:]))
    return _fetched(start, "npm", found, words("--registry"))


def uv_tool(args: Sequence[str]) -> Launch | None:
    """What follows `uvx`, `uv tool run`; `--with` adds what the tool needs, and is not the tool."""
    found, rest = options(args, _UV)
    specs = values(found, "--from")[-1:] or rest[:1]
    if not specs:
        return None
    places = values(found, "--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links")
    beside: Beside = tuple(("from", address(url)) for url in places)
    start = _several([pypi(specs[0], at_sign=True)], beside + _target(specs, rest[1:]))
    return _fetched(start, "uv", found, _UV_CHOOSING)


def pipx_run(args: Sequence[str]) -> Launch | None:
    found, rest = options(args, _PIPX)
    specs = values(found, "--spec")[-1:] or rest[:1]
    if not specs:
        return None
    beside: Beside = tuple(("from", address(url)) for url in values(found, "-i", "--index-url"))
    start = _several([pypi(specs[0])], beside + _target(specs, rest[1:]))
    return _fetched(start, "pip", found, words("-i --index-url --pip-args --python --backend"))


def uv_options(args: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    return options(args, _UV)


def npm(spec: str) -> Launch:
    """`@org/pkg@1.2.3`, or a repository, or a directory."""
    if spec.startswith((".", "/", "~", "file:")) or "\\" in spec:
        return _directory(spec.removeprefix("file:"))
    if "://" in spec or (_SHORT_GIT.fullmatch(spec) and not spec.startswith("@")):
        return _repository(spec)
    at = spec.find("@", 1)
    name, written = (spec[:at], spec[at + 1 :]) if at > 0 else (spec, "")
    if written.startswith("npm:"):
        # An alias: what is installed has another name.
        return npm(written.removeprefix("npm:"))
    exact = _SEMVER.fullmatch(written)
    return _package("npm", name, exact[1] if exact else "", f"{name}@1.2.3", written, spec=spec)


def jsr(spec: str) -> Launch:
    at = spec.find("@", 1)
    name, written = (spec[:at], spec[at + 1 :].split("/", 1)[0]) if at > 0 else (spec, "")
    exact = _SEMVER.fullmatch(written)
    return _package("jsr", name, exact[1] if exact else "", f"jsr:{name}@1.2.3", written)


def go(spec: str) -> Launch:
    name, _, written = spec.partition("@")
    exact = _SEMVER.fullmatch(written)
    return _package("go", name, exact[1] if exact else "", f"{name}@v1.2.3", written)


def pypi(spec: str, *, at_sign: bool = False) -> Launch:
    """`pkg==1.2`, and where uv reads it so `pkg@1.2`; the name in the form of PEP 503."""
    spec = spec.strip()
    if spec.startswith((".", "/", "~")) or "\\" in spec:
        return _directory(spec)
    match = _REQUIREMENT.fullmatch(spec)
    rest = match[2].partition(";")[0].strip() if match else ""
    if "://" in spec:
        return _repository(rest.removeprefix("@").strip() if rest.startswith("@") else spec)
    if not match:
        return whole_line(["pypi", spec])
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    written = ""
    if rest.startswith("=="):
        written = rest.lstrip("=").strip()
    elif at_sign and rest.startswith("@"):
        written = rest[1:].strip()
    exact = _PEP440.fullmatch(written) if written else None
    return _package("pypi", name, written.lower() if exact else "", f"{name}==1.2.3", rest, spec=spec)


def image(spec: str) -> Launch:
    """`image@sha256:…`; a tag can be moved to another image at any time."""
    name, _, written = spec.partition("@")
    head, slash, last = name.rpartition("/")
    name = head + slash + last.partition(":")[0]
    exact = written if _DIGEST.fullmatch(written) else ""
    return _package("oci", name, exact, f"{name}@sha256:DIGEST", spec[len(name) :])


def container(args: Sequence[str]) -> Launch | None:
    """What follows `docker`, `podman`, `nerdctl`: the image of a `run`."""
    _, rest = options(args, words("-c --context -H --host -l --log-level --config --url --connection"))
    if rest[:1] == ["container"]:
        rest = rest[1:]
    if rest[:1] != ["run"]:
        return None
    at = 1
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        at += 2 if _takes_next(rest[at]) else 1
    if at < len(rest) and rest[at] == "--":
        at += 1
    return image(rest[at]) if at < len(rest) else None


def _takes_next(option: str) -> bool:
    if option.startswith("--"):
        return "=" not in option and option not in _DOCKER_FLAGS
    # `-it`, `-itv /a:/b`, `-p8080:80`: the first letter with a value takes the rest, or the next argument.
    for at, letter in enumerate(option[1:], 1):
        if letter not in _DOCKER_LETTERS:
            return at == len(option) - 1
    return False


def _several(found: Sequence[Launch], beside: Beside) -> Launch:
    """One launch for all packages that are named together; pinned only if each is."""
    first = found[0]
    if len(found) == 1 or any(one.scheme != first.scheme for one in found):
        return Launch(
            scheme=first.scheme,
            name=first.name,
            version=first.version if len(found) == 1 else "",
            runner=first.runner,
            beside=first.beside + beside,
            warnings=tuple(warning for one in found for warning in one.warnings),
            spec=first.spec if len(found) == 1 else "",
        )
    name = ",".join(f"{one.name}@{one.version}" if one is not found[-1] else one.name for one in found)
    return Launch(
        scheme=first.scheme,
        name=name,
        version=found[-1].version if all(one.version for one in found) else "",
        beside=beside,
        warnings=tuple(warning for one in found for warning in one.warnings),
    )


def _target(specs: Sequence[str], args: Sequence[str]) -> Beside:
    names = {spec[: spec.find("@", 1)] if spec.find("@", 1) > 0 else re.split(r"[=<>\[]", spec)[0] for spec in specs}
    if not names & _BRIDGES:
        return ()
    return tuple(("to", address(arg)) for arg in args if arg.startswith(("http://", "https://", "ws://", "wss://")))


def spelt(spec: str, version: str, *, requirement: bool) -> tuple[str, ...]:
    """How a package of npm or PyPI is written with this version; `requirement`: rather in the form of PEP 508.

    Older versions of uv take `==` only behind `--from`, and `@` only behind a bare name.
    """
    at = spec.find("@", 1)
    short = f"{spec[:at] if at > 0 else spec}@{version}"
    match = _REQUIREMENT.fullmatch(spec)
    if not match:
        return (short,)
    head, rest = spec[: match.start(2)].rstrip(), match[2]
    exact = f"{head}=={version}{rest[rest.find(';') :] if ';' in rest else ''}"
    return (exact, short) if requirement or exact != f"{match[1]}=={version}" else (short, exact)


def _fetched(
    start: Launch, fetcher: Literal["npm", "uv", "pip"], found: Sequence[tuple[str, str]], choosing: frozenset[str]
) -> Launch:
    chosen = tuple((name, value) for name, value in found if name in choosing)
    return structs.replace(start, fetcher=fetcher, options=chosen) if start.spec else start


def _package(
    scheme: Literal["npm", "pypi", "jsr", "go", "oci"],
    name: str,
    version: str,
    instead: str,
    written: str,
    *,
    spec: str = "",
) -> Launch:
    if version:
        return Launch(scheme=scheme, name=name, version=version, spec=spec)
    if scheme == "oci":
        what = "names an image by a tag, which can be moved to another image"
    elif written:
        what = f"names no single version (`{written[:60]}`)"
    else:
        what = "names no version"
    warning = (
        f"The command {what}: what runs can change at any start. Name the version that you reviewed, as in `{instead}`."
    )
    return Launch(scheme=scheme, name=name, warnings=(warning,), spec=spec)


def _repository(spec: str) -> Launch:
    short = _SHORT_GIT.fullmatch(spec)
    if short:
        host = {"gitlab": "gitlab.com", "bitbucket": "bitbucket.org"}.get(short[1] or "", "github.com")
        place, revision = f"https://{host}/{short[2] or short[4]}", short[3] or short[5] or ""
    else:
        match = _GIT.fullmatch(spec)
        place, revision = (match[1], match[2] or "") if match else (spec, "")
    exact = revision if _COMMIT.fullmatch(revision) else ""
    warnings = () if exact else (f"{address(place)} is not held to a commit: write its 40 digits after the address.",)
    return Launch(scheme="git", name=address(place), version=exact, warnings=warnings)


def _directory(path: str) -> Launch:
    warning = f"`{path[:200]}` is a directory of code, whose changes go unnoticed; a package with a version is noticed."
    return Launch(scheme="project", name="", beside=(("in", path),), runner="directory", warnings=(warning,))
