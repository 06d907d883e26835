"""Which of the user's words ask for something."""

from callgate.trust.provenance.asking import asked
from support.table import rows


@rows(
    ("prompt", "asks", "not_"),
    [
        ("Cancel the gym on Friday.", {"cancel"}, set()),
        ("When is booking VX12?", set(), {"booking"}),
        ("What is new? Then answer Jonas.", {"answer"}, {"new"}),
        ("Can you delete the old file?", {"delete"}, set()),
        ("Tell me what Lena wrote.", set(), {"tell"}),
        ("Tell Lena that we look into it.", {"tell"}, set()),
        ("Book us a table.", {"book"}, set()),
        ("Do not delete anything, only look.", {"look"}, {"delete"}),
        ("Und das Fitnessstudio kannst du streichen.", {"streichen"}, set()),
        ("Schreib Mikkel kurz, dass ich verschoben hab.", {"schreib"}, set()),
        ("Set up a recurring transfer for me?", {"set", "transfer"}, set()),
        ("see v1.2.3 of acme.example? it is old", set(), {"v"}),
        ("bórrala de las notas", {"borra"}, set()),
        ("sí, mándalo", {"manda"}, set()),
        ("yes do that", {"*"}, set()),
        ("ok, go ahead and commit", {"*", "commit"}, set()),
        ("Did you do that?", set(), {"*"}),
        ("What is new in the lounge? And the lanterns, on 12 december?", set(), {"lanterns", "+"}),
        ("And could you cancel the gym?", {"cancel"}, set()),
        ("And cancel the gym?", {"cancel"}, set()),
        ("", set(), set()),
    ],
)
def test_questions_and_what_is_told_to_the_user_ask_for_nothing(prompt, asks, not_):
    found = set(asked(prompt))
    assert asks <= found
    assert not not_ & found
