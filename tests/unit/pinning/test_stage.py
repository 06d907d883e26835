"""The pinning desk fails closed: whatever breaks while a list passes, the client gets an error and never the list."""

import json
from types import SimpleNamespace

from callgate.errors import MessageError, Reason, Refused
from callgate.gate import Context
from callgate.jsonrpc import Limits, parse
from callgate.pinning.listing import TOOLS, read_page
from callgate.pinning.stage import PinningStage
from support.table import rows

LIST = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"poison"}]}}'
WEB = Context("web", "http")
ERRORS = {
    "a key twice": (MessageError(Reason.DUPLICATE_KEY, "an object holds 'poison' twice"), "upstream_garbage"),
    "a refusal": (Refused(Reason.SERVER_UNKNOWN), "server_unknown"),
    "anything else": (KeyError("poison"), "internal_error"),
}


class Tools:
    """What is known of a server's tools, up to the place where it breaks."""

    of = TOOLS

    def __init__(self, mode, where, error):
        self.settings = SimpleNamespace(mode=mode, pending_tool=True, prompts=True)
        self._where, self._error = where, error

    def _at(self, where):
        if where == self._where:
            raise self._error

    def waits(self, _context, toolset):
        return toolset.waits

    def both(self):
        return [self]

    def generation(self, _server):
        return 0

    def page(self, raw):
        self._at("page")
        return read_page(raw)

    def passing(self, _context, page, _cursor, _asked=-1):
        self._at("passing")
        return list(page.entries)

    def current(self, _context, *, whatever_age=False):
        self._at("current")
        # A toolset that has no version breaks where the version is put in.
        return SimpleNamespace(waits=False) if whatever_age else None


def desk(mode, where="", error=None):
    return PinningStage(Tools(mode, where, error), stale=None, settle_in=None, looked=None, notifier=None, review=None)


def asked(method):
    return parse(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).encode(), Limits())


@rows("how", ERRORS)
@rows("where", ["page", "passing", "current"])
def test_a_list_that_breaks_us_is_not_shown(where, how):
    error, reason = ERRORS[how]
    answer = json.loads(desk("enforce", where, error).amend(asked("tools/list"), WEB)(LIST))
    assert answer["error"]["data"]["reason"] == reason
    assert "poison" not in str(answer)


def test_nor_one_that_breaks_us_at_the_last_step():
    answer = json.loads(desk("enforce").amend(asked("tools/list"), WEB)(LIST))
    assert answer["error"]["data"]["reason"] == "internal_error"


@rows("how", ERRORS)
@rows("where", ["page", "passing"])
def test_nor_one_that_nobody_asked_for(where, how):
    error, reason = ERRORS[how]
    at = desk("enforce", where, error)
    for amend in (at.amend(asked("ping"), WEB), at.screen(WEB)):
        answer = json.loads(amend(LIST))
        assert answer["error"]["data"]["reason"] == reason
        assert "poison" not in str(answer)


@rows("where", ["page", "passing", "current"])
def test_whoever_only_looks_on_keeps_nobody_from_anything(where):
    at = desk("observe", where, KeyError("poison"))
    assert at.amend(asked("tools/list"), WEB)(LIST) is LIST
    assert at.screen(WEB)(LIST) is LIST
