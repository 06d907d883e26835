from callgate.store import KillSwitch
from callgate.store.control import forced_by_environment
from support.table import rows


@rows("value", ["1", "true", "on", " YES ", "anything else"])
def test_the_environment_forces_the_switch_on(value):
    switch = KillSwitch(None, environ={"CALLGATE_BLOCK_ALL": value})
    assert switch.engaged
    assert "CALLGATE_BLOCK_ALL" in switch.why


@rows("value", ["", "0", "off", "False", "no"])
def test_a_clear_off_does_not(value):
    assert not forced_by_environment({"CALLGATE_BLOCK_ALL": value})
    assert not forced_by_environment({})
