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


# What shells, terminals, desktops, editors, clients and runners of tests set for themselves, in each session anew.
_SESSION: Final = re.compile(
    r"(?i:_|(?:OLD|INIT_|PROJECT_|VSCODE_)?(?:PWD|CWD)|OWD|ARGV0|APPIMAGE|APPDIR|SHLVL|TERM|TERM_\w+|TERMCAP|TERMINFO\w*|COLOR\w*|LS_?COLORS|"
    r"LANG|LANGUAGE|LC_\w+|TZ|TTY|GPG_\w+|COLUMNS|LINES|MAIL|USER|USERNAME|LOGNAME|HOST|HOSTNAME|HOSTTYPE|MACHTYPE|OSTYPE|DISPLAY|"
    r"WAYLAND_DISPLAY|XAUTHORITY|ICEAUTHORITY|XMODIFIERS|WINDOW\w*|SSH_(?!ASKPASS)\w+|DBUS_\w+|DESKTOP_\w+|GDM\w+|GNOME_\w+|KDE_\w+|"
    r"PLASMA_\w+|MAKELEVEL|MAKE_TERM(?:OUT|ERR)|(?:QT4?|GTK|CLUTTER)_IM_MODULE|IM_CONFIG_\w+|GIO_LAUNCHED_\w+|CHROME_DESKTOP|SESSION_MANAGER|INVOCATION_ID|"
    r"JOURNAL_STREAM|MANAGERPID\w*|SYSTEMD_EXEC_PID|NOTIFY_SOCKET|MEMORY_PRESSURE_\w+|TMUX\w*|STY|ITERM_\w+|KITTY_\w+|WEZTERM_\w+|"
    r"ALACRITTY_\w+|GHOSTTY_\w+|KONSOLE_\w+|VTE_\w+|WT_\w+|ConEmu\w*|WSL\w*|VSCODE_(?!GIT_ASKPASS_)\w+|CURSOR_\w+|CLAUDE\w*|WINDSURF_\w+|"
    r"ZED_\w+|WORKSPACE_FOLDER_PATHS|XPC_\w+|__CF\w+|COMMAND_MODE|SECURITYSESSIONID|LaunchInstanceID|HIST\w+|INPUTRC|LESS|LESS_TERMCAP_\w+|"
    r"LESSHISTFILE|FZF_\w+|GREP_\w+|MANPATH|INFOPATH|CDPATH|FPATH|PS[1-4]|PROMPT\w*|STARSHIP_\w+|P9K_\w+|ZSH\w*|DIRENV_\w+|"
    r"CONDA_(?!EXE|PYTHON_EXE)\w+|VIRTUAL_ENV\w*|HOMEBREW_(?:PREFIX|CELLAR|REPOSITORY)|NPM_(?:COMMAND|LIFECYCLE_\w+|PACKAGE_\w+)|SUDO_(?:COMMAND|USER|UID|GID|HOME)|"
    r"__INTELLIJ_\w+|JEDITERM_\w+|MYVIMRC|VIM|VIMRUNTIME|NVIM|NVIM_LISTEN_ADDRESS|ZELLIJ\w*|WARP_\w+|GTK2?_RC_FILES|BAMF_\w+|"
    r"(?:PYTEST_CURRENT|BATS)_TEST\w*|PYTEST_XDIST_\w+|NOX_CURRENT_SESSION|"
    r"GITHUB_(?:ENV|PATH|OUTPUT|STATE|STEP_SUMMARY|EVENT_PATH))"
)
# Where the name of a variable of no family ends so, its value says what is loaded, run or fetched.
_LEADING: Final = re.compile(
    r"(?i)(?:^|_)(?:PLUGINS?|MODULES?|EXTENSIONS?|ADDONS?|SCRIPTS?|HOOKS?|LOAD|LOADERS?|PRELOAD|REQUIRE|IMPORTS?|\w*LIBS?|\w*LIBPATH|LIBRARY|"
    r"DRIVERS?|ENGINES?|MIDDLEWARE|ENTRY_?POINT|STARTUP|INIT|APP|APPLICATION|HANDLER|EXE|EXEC|EXECUTABLE|BIN|BINARY|PROGRAM|INTERPRETER|"
    r"COMPILER|COMMAND|CMD|SHELL|EDITOR|VISUAL|\w*PAGER|BROWSER|ASKPASS|CC|CXX|LD|AR|MAKE|MIRROR|REGISTRY|DOWNLOAD|ARGS|\w*FLAGS|OPTIONS|"
    r"OPTS)(?:_(?:PATHS?|DIRS?|FILES?|FOLDER|HOST|BASE|URL|NAME|LIST|ARGS))*\Z"
)
# Where it ends so, its value may be a list of folders to load from.
_PLACES: Final = re.compile(r"(?i).*PATHS?")
# Of these, what names one program.
_PROGRAM: Final = re.compile(
    r"(?i)(?:^|_)(?:EXE|EXEC|EXECUTABLE|BIN|BINARY|PROGRAM|INTERPRETER|COMPILER|COMMAND|CMD|SHELL|EDITOR|VISUAL|\w*PAGER|BROWSER|ASKPASS|CC|"
    r"CXX|LD|AR|MAKE)\Z"
)
_CODE_FILE: Final = re.compile(
    r"(?i)\.(?:py|pyw|pyz|js|mjs|cjs|ts|mts|cts|jsx|tsx|sh|bash|zsh|rb|pl|php|lua|r|jar|war|dll|so|dylib|node|wasm|exe|bat|cmd|ps1)\Z"
)
# What `make` tells what it starts. Other options of it, and variables of more than a number, can name code.
_OF_MAKE: Final = re.compile(
    r"(?:\s+(?:-?[BdiklnqrRsStvw]+|-j\d*|--no-print-directory|--print-directory|--jobserver-(?:auth|fds)=[\w,:./-]*|"
    r"--output-sync=\w+|--(?:\s+\w+=[\d.]{1,20})*))*\s*"
)
_SWITCH: Final = re.compile(r"(?i:[\d.]{1,100}|true|false|yes|no|on|off)")


def loads_code(name: str) -> bool:
    """Whether a variable of this name makes launchers and interpreters load or fetch code, whatever it holds."""
    if _EXACT.fullmatch(name):
        return True
    return _LOADS.match(name) is not None and _SILENT.fullmatch(name) is None


def leads_to_code(name: str) -> bool:
    """Whether the name of a variable says that its value is loaded, run or fetched."""
    return _LEADING.search(name) is not None


def names_places(name: str) -> bool:
    """Whether the name of a variable says that its value is paths, of code or of data."""
    return _PLACES.fullmatch(name) is not None


def names_program(name: str) -> bool:
    """Whether the name of a variable says that its value is a program with its options."""
    return _PROGRAM.search(name) is not None


def is_code_file(path: str) -> bool:
    """Whether a path ends as files of code do."""
    return _CODE_FILE.search(path) is not None


def changes_code(name: str, value: str) -> bool:
    """Whether a program may run other code because this variable is set. What a path leads to is not looked at here."""
    if loads_code(name):
        return True
    if name in {"MAKEFLAGS", "MFLAGS"} and len(value) < 1000 and _OF_MAKE.fullmatch(f" {value}"):
        return False
    if not value or _SESSION.fullmatch(name) or _SILENT.fullmatch(name) or _SWITCH.fullmatch(value):
        return False
    return leads_to_code(name) or "/" in value or "\\" in value or value.startswith("-") or is_code_file(value)


# Where these stand in a name, even a number may be a file, a place of packages, or leave out a check.
_LEADS: Final = re.compile(
    r"(?i)^(?:LD|DYLD|BASH_FUNC)_|OPT|FLAG|PATH|LIB|LOAD|START|REQUIRE|IMPORT|COMMAND|SCRIPT|HOOK|PLUGIN|PREFIX|DIR|ROOT|HOME|FILE|"
    r"CONFIG|ENV|BASE|PROJECT|TARGET|SRC|SOURCE|OVERRIDE|CONSTRAINT|INDEX|REGISTRY|LINKS|PROXY|HOST|URL|CERT|CAINFO|BUNDLE|SSL|TLS|"
    r"VERIFY|TRUST|INSECURE|SUM|SHELL|SSH|EDITOR|PAGER|ASKPASS|DIFF"
)


def is_switch(name: str, value: str) -> bool:
    """Whether a variable is a number, a version, or on or off, and leads to no code whatever the folder."""
    return loads_code(name) and _LEADS.search(name) is None and _SWITCH.fullmatch(value) is not None
