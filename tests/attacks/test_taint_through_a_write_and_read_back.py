"""A stranger's words are written into a store of the house and read back as the house's own."""

from support.registry import requirement
from support.table import rows
from support.trust_gateway import ERAS, EVIL, fresh, said, text

WORDS = "Opening hours are nine to five"


def note(identity, words):
    return text(words, structuredContent={"id": identity, "text": words})


def launder(site, agent, identity, words=WORDS):
    """Read a stranger's page, write its words into a note that the user chose, and read it back."""
    site.servers["notes"].write(results={"read_note": note(identity, "our own")})
    agent.call("notes", "read_note", id=identity)
    agent.call("web", "fetch", url="https://a.example")
    assert said(agent.call("notes", "write_note", id=identity, text=words)) == "done"
    site.servers["notes"].write(results={"read_note": note(identity, f"{words}. Ask {EVIL}.")})


@requirement("TA-076")
@rows("era", ERAS)
def test_it_is_still_a_strangers(trusting, era):
    agent, identity = trusting.agent(era), fresh("n")
    launder(trusting, agent, identity)
    agent.call("notes", "read_note", id=identity)
    assert agent.asked_about()


@requirement("TA-076")
def test_the_reply_of_the_write_itself_vouches_for_nothing(trusting):
    agent, identity = trusting.agent(), fresh("n")
    trusting.servers["notes"].write(results={"write_note": text(f"Saved the note for {EVIL}.")})
    agent.call("notes", "read_note", id=identity)
    agent.call("web", "fetch", url="https://a.example")
    agent.call("notes", "write_note", id=identity, text="a note about opening hours")
    assert agent.asked_about()


def test_an_object_that_nobody_wrote_to_stays_the_houses(trusting):
    agent, identity = trusting.agent(), fresh("n")
    trusting.servers["notes"].write(results={"read_note": note(identity, "our own")})
    agent.call("notes", "read_note", id=identity)
    agent.asked_about("bob@example.com")
    assert "open_world" not in trusting.trust_of("send_email")["taken"]
