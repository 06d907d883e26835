"""Which environment variables can change what code a program runs. Only the standard library: `wrap` asks too."""

from __future__ import annotations

import re
from typing import Final

# By the beginning of their names: loaders, interpreters, package managers, container clients, version managers.
_LOADS: Final = re.compile(
    r"(?i:LD_|DYLD_|BASH_FUNC_|NODE_|NPM_CONFIG_|PNPM_|YARN_|COREPACK_|BUN_|DENO_|TSX_|TS_NODE_|PYTHON|UV_|PIP_|PIPX_|POETRY_|PDM_|"
    r"HATCH_|PYENV_|NODENV_|RBENV_|ASDF_|MISE_|VOLTA_|FNM_|PERL5|PERLLIB|RUBYLIB|RUBYOPT|GEM_|BUNDLE_|LUA_|PHP|R_PROFILE|R_ENVIRON|"
    r"R_LIBS|DOTNET_|CORECLR_|COMPLUS_|JAVA_|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|DOCKER_|CONTAINER_|CONTAINERS_|PODMAN_|"
    r"GIT_SSH|GIT_EXEC_PATH|GIT_CONFIG|GIT_PROXY_COMMAND|GIT_TEMPLATE_DIR|GO(?:FLAGS|PROXY|SUMDB|NO|PRIVATE|TOOLCHAIN|PATH|BIN|ENV|ROOT)|"
    r"CARGO_|RUST|SSL_CERT_|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|OPENSSL_CONF)"
)
_EXACT: Final = re.compile(
    r"(?i:PATH|HOME|ENV|BASH_ENV|ZDOTDIR|SHELLOPTS|BASHOPTS|IFS|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA|"
    r"XDG_CONFIG_HOME|XDG_CONFIG_DIRS|XDG_DATA_HOME|PSMODULEPATH)"
)
# Of these families, what says nothing about code: outputs, encodings, telemetry, versions, names of a shell.
_SILENT: Final = re.compile(
    r"(?i:NODE_ENV|NODE_NO_WARNINGS|NODE_VERSION|NODE_DISABLE_COLORS|NODE_REPL_HISTORY|"
    r"NPM_CONFIG_(?:USER_AGENT|NPM_VERSION|LOGLEVEL|YES|COLOR|PROGRESS|FUND|AUDIT|UPDATE_NOTIFIER|NOPROXY|INIT_MODULE)|"
    r"PYTHON(?:UNBUFFERED|IOENCODING|UTF8|DONTWRITEBYTECODE|HASHSEED|FAULTHANDLER|NOUSERSITE|SAFEPATH|COERCECLOCALE)|"
    r"UV_(?:NO_PROGRESS|LINK_MODE|HTTP_TIMEOUT|CONCURRENT_\w+|NO_COLOR)|PIP_(?:DISABLE_PIP_VERSION_CHECK|NO_COLOR|TIMEOUT)|"
    r"PYENV_(?:SHELL|VIRTUALENV_INIT)|FNM_(?:MULTISHELL_PATH|LOGLEVEL|ARCH)|MISE_SHELL|"
    r"DOTNET_(?:CLI_TELEMETRY_OPTOUT|NOLOGO)|DOCKER_(?:BUILDKIT|CLI_HINTS)|BUN_(?:INSTALL_CACHE_DIR)|RUST_(?:LOG|BACKTRACE))"
)


def changes_code(name: str) -> bool:
    """Whether a program may run other code because a variable of this name is set."""
    if _EXACT.fullmatch(name):
        return True
    return _LOADS.match(name) is not None and _SILENT.fullmatch(name) is None


# Of a word that is no path these may make a file of the folder that a program starts in.
_LEADS: Final = re.compile(
    r"(?i)OPT|FLAG|PATH|LIB|LOAD|START|REQUIRE|IMPORT|COMMAND|SCRIPT|HOOK|PLUGIN|PREFIX|DIR|ROOT|HOME|FILE|CONFIG|ENV"
)
_PLACES: Final = re.compile(r"/[^:\s]*(?::/[^:\s]*)*")
_ADDRESS: Final = re.compile(r"https?://\S+")
_WORD: Final = re.compile(r"[\w.-]{1,100}")


def is_same_everywhere(name: str, value: str) -> bool:
    """Whether a variable says the same in every folder: whole paths, an address, or a word that leads to no file."""
    if _PLACES.fullmatch(value) or _ADDRESS.fullmatch(value):
        return True
    return _WORD.fullmatch(value) is not None and _LEADS.search(name) is None
