"""The policy that is there without any configuration."""

import pytest

from callgate.trust.model import DataLabel, SessionLabel, Traced
from callgate.trust.policy import Policy
from support.policies import READ, facts, found, mail, tool
from support.table import rows


@pytest.fixture(scope="module")
def default():
    return Policy.load()


def ruled(default, label, session=READ, *, links=(), prompt=True, carried=frozenset(), secrets=False, **where):
    import msgspec

    provenance = msgspec.structs.replace(
        found(**where),
        foreign_links=tuple(Traced(path, "link", "untrusted", False, "") for path in links),
        prompt_known=prompt,
    )
    ruling = default.decide(facts(label, session=session, provenance=provenance, carried=carried, secrets=secrets))
    return ruling.rule if ruling.effect == "ask" else ruling.effect


def test_it_never_blocks_and_every_rule_has_a_sentence(default):
    assert {rule.effect for rule in default.rules} == {"ask", "warn"}
    assert all(rule.default and 20 < len(rule.say) < 120 and rule.say.endswith(".") for rule in default.rules)


def test_reads_pass_whatever_they_are_made_of(default):
    assert ruled(default, tool(), to="untrusted") == "allow"


@rows("prompt", [True, False])
def test_a_strangers_value_is_asked_about_and_the_users_own_is_not(default, prompt):
    assert ruled(default, mail(), to="untrusted", prompt=prompt) == "stranger-decides"
    for place in ("endorsed", "prompt", "clean", "trusted", "linked", "own"):
        assert ruled(default, mail(), to=place, prompt=prompt) == "allow"


def test_a_read_that_carries_something_outside_counts_as_consequential(default):
    fetch = tool(destinations=["public"])
    assert ruled(default, fetch, url="untrusted:link") == "stranger-decides"
    assert default.decide(facts(fetch, session=READ, args={})).effect == "allow"


@rows("kind", ["identity", "link", "time"])
def test_a_value_from_nowhere_is_asked_about_if_the_request_is_known_and_strangers_were_read(default, kind):
    assert ruled(default, mail(), to=f"nowhere:{kind}") == "unknown-value"
    assert ruled(default, mail(), to=f"nowhere:{kind}", prompt=False) == "allow"
    assert ruled(default, mail(), SessionLabel(), to=f"nowhere:{kind}") == "allow"


def test_a_quantity_needs_company_that_the_user_named(default):
    assert ruled(default, mail(), amount="nowhere:quantity") == "unknown-quantity"
    assert ruled(default, mail(), amount="own:quantity", to="own") == "unknown-quantity"
    assert ruled(default, mail(), amount="nowhere:quantity", to="prompt") == "allow"


def test_a_strangers_link_in_a_text_for_others(default):
    assert ruled(default, mail(), links=["body"], to="prompt") == "stranger-link"
    assert (
        ruled(default, tool(destinations=["internal"], outcomes=["consequential"]), links=["body"]) == "stranger-link"
    )
    assert ruled(default, tool(outcomes=["consequential"]), links=["body"], to="prompt") == "allow"


def test_nothing_of_the_user(default):
    assert ruled(default, mail(), body="untrusted:text") == "nothing-of-the-user"
    assert ruled(default, mail(), body="untrusted:text", to="prompt") == "allow"


def test_credentials_leave(default):
    assert ruled(default, mail(), to="prompt", secrets=True) == "credentials-leave"
    assert ruled(default, tool(), to="prompt", secrets=True) == "allow"
    # What a session may have read somewhere is no reason to ask each time.
    assert ruled(default, mail(), to="prompt", carried=frozenset({"credentials"})) == "allow"


def test_after_malicious_content_consequences_are_asked_about(default):
    assert ruled(default, mail(), SessionLabel(True, True), to="prompt") == "after-malicious-content"
    assert ruled(default, tool(), SessionLabel(True, True), to="prompt") == "allow"


def test_a_flagged_result_has_a_warning(default):
    assert default.decide_result(facts().with_result(DataLabel(True, True))).effect == "warn"
    assert default.decide_result(facts().with_result(DataLabel(True))).effect == "allow"


def test_it_speaks_of_no_tool_in_particular(default):
    assert not {"tool.name", "tool.server", "args", "agent.id"} & {
        name for r in default.rules for name in r.condition.reads
    }
