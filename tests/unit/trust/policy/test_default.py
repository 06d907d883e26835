"""The policy that is there without any configuration."""

import pytest

from callgate.trust.model import DataLabel, SessionLabel, Traced
from callgate.trust.policy import Policy
from support.policies import READ, facts, found, mail, tool
from support.table import rows


@pytest.fixture(scope="module")
def default():
    return Policy.load()


def ruled(
    default,
    label,
    session=READ,
    *,
    links=(),
    new=(),
    far=(),
    prompt=True,
    carried=frozenset(),
    secrets=False,
    untraceable=False,
    **where,
):
    import msgspec

    provenance = msgspec.structs.replace(
        found(**where),
        foreign_links=tuple(Traced(path, "link", "untrusted", False, "") for path in links),
        prompt_known=prompt,
        new_links=tuple(new),
        far_reaching=tuple(far),
        untraceable=untraceable,
        texts_read=session.open_world,
        strange_texts=tuple(path for path, told in where.items() if told == "untrusted:text"),
    )
    ruling = default.decide(facts(label, session=session, provenance=provenance, carried=carried, secrets=secrets))
    return ruling.rule if ruling.effect == "ask" else ruling.effect


def test_it_never_blocks_and_every_rule_has_a_sentence(default):
    assert {rule.effect for rule in default.rules} == {"ask", "warn", "mask"}
    assert all(rule.default and 20 < len(rule.say) < 120 and rule.say.endswith(".") for rule in default.rules)


def test_reads_pass_whatever_they_are_made_of(default):
    assert ruled(default, tool(), to="untrusted") == "allow"


@rows("prompt", [True, False])
def test_a_strangers_value_is_asked_about_and_the_users_own_is_not(default, prompt):
    assert ruled(default, mail(), to="untrusted", prompt=prompt) == "stranger-decides"
    for place in ("endorsed", "prompt", "clean", "trusted", "linked", "schema"):
        assert ruled(default, mail(), to=place, prompt=prompt) == "allow"


def test_a_change_that_stays_with_the_user_is_not_asked_about(default):
    kept = tool(destinations=["user"], outcomes=["consequential"])
    for place in ("own", "nowhere", "untrusted", "nowhere:text"):
        assert ruled(default, kept, path=place) == "allow"


def test_a_link_as_it_was_found_is_a_read_and_one_with_more_in_it_leaves(default):
    fetch = tool(destinations=["public"])
    assert ruled(default, fetch, url="untrusted:link") == "allow"
    assert ruled(default, fetch, url="untrusted:link", new=["url"]) == "link-carries-more"
    assert ruled(default, fetch, SessionLabel(), url="nowhere:link", new=["url"]) == "allow"
    assert default.decide(facts(fetch, session=READ, args={})).effect == "allow"


@rows("prompt", [True, False])
def test_a_value_from_nowhere_is_asked_about_where_strangers_were_read(default, prompt):
    for kind in ("identity", "link"):
        assert ruled(default, mail(), to=f"nowhere:{kind}", prompt=prompt) == "unknown-value"
        assert ruled(default, mail(), SessionLabel(), to=f"nowhere:{kind}", prompt=prompt) == "allow"
    # A time that nobody said can be told from the user's only where the request is known.
    assert ruled(default, mail(), day="nowhere:time", prompt=prompt) == ("unknown-value" if prompt else "allow")


def test_one_of_the_users_things_is_asked_about_unless_the_user_named_something(default):
    delete = tool(destinations=["user"], outcomes=["irreversible"])
    for place in ("own", "trusted"):
        assert ruled(default, delete, file_id=place) == "chosen-from-a-list"
        assert ruled(default, delete, SessionLabel(), file_id=place) == "allow"
    post = tool(destinations=["public"], outcomes=["consequential"])
    assert ruled(default, post, message_id="own") == "chosen-from-a-list"
    assert ruled(default, post, message_id="own", to="prompt") == "allow"
    assert ruled(default, post, to="trusted") == "allow"
    # Where there is no way back, the thing itself has to be the user's word.
    assert ruled(default, delete, file_id="own", folder="prompt") == "chosen-from-a-list"
    assert ruled(default, delete, file_id="linked") == "allow"


def test_a_change_that_empties_or_writes_where_programs_start_is_asked_about(default):
    kept = tool(destinations=["user"], outcomes=["consequential"])
    assert ruled(default, kept, path="own", far=["path"]) == "reaches-further"
    assert ruled(default, kept, SessionLabel(), path="own", far=["path"]) == "allow"


def test_a_call_with_nothing_to_trace_is_asked_about_unless_the_user_asked_for_it(default):
    unlock = tool(destinations=["user"], outcomes=["irreversible"])
    assert ruled(default, unlock, untraceable=True) == "nothing-to-trace"
    assert ruled(default, unlock) == "allow"
    assert ruled(default, unlock, SessionLabel(), untraceable=True) == "allow"
    assert ruled(default, tool(destinations=["user"], outcomes=["consequential"]), untraceable=True) == "allow"


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
    flagged = SessionLabel(True, True)
    assert ruled(default, mail(), flagged, to="prompt") == "after-malicious-content"
    assert ruled(default, tool(), SessionLabel(True, True), to="prompt") == "allow"


def test_a_flagged_result_has_a_warning(default):
    assert default.decide_result(facts().with_result(DataLabel(True, True))).effect == "warn"
    assert default.decide_result(facts().with_result(DataLabel(True))).effect == "allow"


def test_it_speaks_of_no_tool_in_particular(default):
    assert not {"tool.name", "tool.server", "args", "agent.id"} & {
        name for r in default.rules for name in r.condition.reads
    }
