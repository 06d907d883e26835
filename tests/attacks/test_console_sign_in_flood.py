"""A program opens sign-ins in a person's name without end, so that the person's own page has no room left."""

import asyncio

from support.console import live_console


async def test_the_person_still_approves():
    async with live_console() as console:
        person = await console.sign_in()
        asked = await console.ask()
        flood = [console.approvals.begin_sign_in("anna") for _ in range(1_100)]
        ended = await asyncio.gather(*flood, return_exceptions=True)
        refused = [one for one in ended if isinstance(one, Exception)]
        assert refused, "sign-ins are bounded"
        issued = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
        response = person.key.get(issued["requestOptions"])
        body = {"challengeId": issued["challengeId"], "response": response}
        assert (await console.post(f"/approve/{asked.id}/approve", body, person)).status == 200
        assert (await console.stored(asked)).state == "approved"
