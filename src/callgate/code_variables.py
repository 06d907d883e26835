"""Which environment variables can change what code a program runs. Only the standard library: `wrap` asks too."""

from __future__ import annotations

import re
from typing import Final

# By the beginning of their names: loaders, interpreters, package managers, container clients, version managers.
_LOADS: Final = re.compile(
    r"(?i:LD_|DYLD_|BASH_FUNC_|NODE_|NPM_CONFIG_|PNPM_|YARN_|COREPACK_|BUN_|DENO_|TSX_|TS_NODE_|PYTHON|UV_|PIP_|PIPX_|POETRY_|PDM_|"
    r"HATCH_|PYENV_|NODENV_|RBENV_|ASDF_|MISE_|VOLTA_|FNM_|PERL5|PERLLIB|RUBYLIB|RUBYOPT|GEM_|BUNDLE_|LUA_|PHP|R_PROFILE|R_ENVIRON|"
    r"R_LIBS|DOTNET_|CORECLR_|COMPLUS_|JAVA_|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|DOCKER_|CONTAINER_|CONTAINERS_|PODMAN_|"
    r"GIT_|GO(?:FLAGS|PROXY|SUMDB|NO|PRIVATE|TOOLCHAIN|PATH|BIN|ENV|ROOT)|"
    r"CARGO_|RUST|SSL_CERT_|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|OPENSSL_CONF)"
)
_EXACT: Final = re.compile(
    r"(?i:PATH|HOME|ENV|BASH_ENV|ZDOTDIR|SHELLOPTS|BASHOPTS|IFS|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA|"
    r"XDG_CONFIG_HOME|XDG_CONFIG_DIRS|XDG_DATA_HOME|XDG_DATA_DIRS|XDG_CACHE_HOME|PSMODULEPATH|SSH_ASKPASS|REQUESTS_CA_BUNDLE|"
    r"CURL_CA_BUNDLE)"
)
# Of these families, what says nothing about code: outputs, encodings, telemetry, versions, names of a shell.
_SILENT: Final = re.compile(
    r"(?i:NODE_ENV|NODE_NO_WARNINGS|NODE_VERSION|NODE_DISABLE_COLORS|NODE_REPL_HISTORY|"
    r"NPM_CONFIG_(?:USER_AGENT|NPM_VERSION|LOGLEVEL|YES|COLOR|PROGRESS|FUND|AUDIT|UPDATE_NOTIFIER|NOPROXY|INIT_MODULE)|"
    r"PYTHON(?:UNBUFFERED|IOENCODING|UTF8|DONTWRITEBYTECODE|HASHSEED|FAULTHANDLER|NOUSERSITE|SAFEPATH|COERCECLOCALE)|"
    r"UV_(?:NO_PROGRESS|LINK_MODE|HTTP_TIMEOUT|CONCURRENT_\w+|NO_COLOR)|PIP_(?:DISABLE_PIP_VERSION_CHECK|NO_COLOR|TIMEOUT)|"
    r"PYENV_(?:SHELL|VIRTUALENV_INIT)|FNM_(?:MULTISHELL_PATH|LOGLEVEL|ARCH)|MISE_SHELL|"
    r"DOTNET_(?:CLI_TELEMETRY_OPTOUT|NOLOGO)|DOCKER_(?:BUILDKIT|CLI_HINTS)|CONTAINER_(?:NAME|ID)|GIT_(?:AUTHOR|COMMITTER|PS1)_\w+|"
    r"GIT_TERMINAL_PROMPT|RUST_(?:LOG|BACKTRACE))"
)


def changes_code(name: str) -> bool:
    """Whether a program may run other code because a variable of this name is set."""
    if _EXACT.fullmatch(name):
        return True
    return _LOADS.match(name) is not None and _SILENT.fullmatch(name) is None


# Where these stand in a name, even a number may be a file, a place of packages, or leave out a check.
_LEADS: Final = re.compile(
    r"(?i)^(?:LD|DYLD|BASH_FUNC)_|OPT|FLAG|PATH|LIB|LOAD|START|REQUIRE|IMPORT|COMMAND|SCRIPT|HOOK|PLUGIN|PREFIX|DIR|ROOT|HOME|FILE|"
    r"CONFIG|ENV|BASE|PROJECT|TARGET|SRC|SOURCE|OVERRIDE|CONSTRAINT|INDEX|REGISTRY|LINKS|PROXY|HOST|URL|CERT|CAINFO|BUNDLE|SSL|TLS|"
    r"VERIFY|TRUST|INSECURE|SUM|SHELL|SSH|EDITOR|PAGER|ASKPASS|DIFF"
)
_SWITCH: Final = re.compile(r"(?i:[\d.]{1,100}|true|false|yes|no|on|off)")


def is_switch(name: str, value: str) -> bool:
    """Whether a variable is a number, a version, or on or off, and leads to no code whatever the folder."""
    return changes_code(name) and _LEADS.search(name) is None and _SWITCH.fullmatch(value) is not None
