"""Prompts that hooks told, given to the sessions of their client."""

from callgate.prompts.listener import Heard
from callgate.protocol import SESSION_META
from callgate.trust.provenance import Fingerprints, Memory
from callgate.trust.user_prompts import ReportedPrompts


def made():
    return Memory(Fingerprints(b"k" * 32))


def says(memory, text):
    return memory.prompt.says(memory.words(text))


def test_a_session_gets_what_was_told_before_it_and_after_it():
    heard, memory = ReportedPrompts(made), made()
    heard.hear(*Heard(("Write to ann@example.com", "and to bob@example.com"), "c1"))
    heard.give(memory, {})
    assert says(memory, "ann@example.com")
    assert says(memory, "bob@example.com")
    assert not says(memory, "ann@example.com and to"), "what stood between was not the user's"
    assert memory.prompt_known
    heard.hear(*Heard(("Then carol@example.com",), "c1"))
    heard.give(memory, {})
    assert says(memory, "carol@example.com")
    # A memory that is made anew gets all of it again.
    again = made()
    heard.give(again, {})
    assert says(again, "ann@example.com")


def test_it_is_the_same_as_a_prompt_in_a_request():
    heard, memory, other = ReportedPrompts(made), made(), made()
    heard.hear(*Heard(("See https://shop.example/a for Ann",)))
    heard.give(memory, {})
    heard.give(memory, {})
    other.remember_prompt("See https://shop.example/a for Ann")
    assert memory._said == other._said


def test_a_session_that_its_client_names_gets_its_own_conversation():
    heard, memory = ReportedPrompts(made), made()
    heard.hear(*Heard(("Write to ann@example.com",), "c1"))
    heard.give(memory, {SESSION_META: "c2"})
    assert not memory.prompt_known
    heard.give(memory, {SESSION_META: "c1"})
    assert says(memory, "ann@example.com")


def test_a_thousand_prompts_later_each_is_still_taken_in_once():
    memory = made()
    for number in range(1100):
        memory.remember_digests(memory.digests_of_prompt(f"word{number}"))
    size = len(memory._said.prompt)
    memory.remember_digests(memory.digests_of_prompt("word1099"))
    assert len(memory._said.prompt) == size
