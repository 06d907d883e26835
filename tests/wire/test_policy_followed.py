"""A gateway follows the file with its rules: a new one holds within seconds, a broken one never does."""

from support.sessions import until
from support.trust_gateway import text, tool, trust_site

ALLOWS = '[[rules]]\nname = "no-drafts"\neffect = "block"\nwhen = \'tool.name == "draft"\'\n'
BLOCKS = ALLOWS.replace("draft", "list_notes")
SERVERS = {"notes": {"tools": [tool("list_notes")], "results": {"list_notes": text("none")}}}


def blocked(agent):
    answer = agent.call("notes", "list_notes", None)
    return answer.get("error", {}).get("data", {}).get("reason") == "rule_blocked"


def test_rules_that_change_while_it_runs(tmp_path):
    rules = tmp_path / "policy.toml"
    rules.write_text(ALLOWS)
    with trust_site(tmp_path, SERVERS, trust={"policy": "policy.toml"}) as site:
        agent = site.agent()
        assert not blocked(agent)
        rules.write_text(BLOCKS)
        until(lambda: blocked(agent))
        # What cannot be read does not take the place of what holds.
        rules.write_text("rules = 3")
        site.gateway.wait_for("new configuration not taken")
        assert blocked(agent)
        rules.write_text(ALLOWS)
        until(lambda: not blocked(agent))
