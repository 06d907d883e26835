"""The page of the Python API has every public name, says something of each, and nothing of the machine it was made on."""

import inspect
import os
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import msgspec

from docs import python_api
from support.table import rows

PAGE = python_api.page()
EMPTY = MappingProxyType({})


@rows("module", python_api.MODULES)
def test_every_exported_name_is_there(module):
    part = PAGE.partition(f"\n## {module}\n")[2].partition("\n## ")[0]
    names = [name for name in import_module(module).__all__ if name != "__version__"]
    assert [line.removeprefix("### ") for line in part.splitlines() if line.startswith("### ")] == names


@rows("module", python_api.MODULES)
def test_classes_and_functions_say_what_they_are(module):
    exported = {name: getattr(import_module(module), name) for name in import_module(module).__all__}
    found = {name: one for name, one in exported.items() if inspect.isclass(one) or inspect.isfunction(one)}
    assert found
    assert [name for name, one in found.items() if not one.__dict__.get("__doc__", one.__doc__)] == []


def test_nothing_of_this_machine_is_told():
    told = [value for value in os.environ.values() if len(value) > 12 and value in PAGE]
    assert (told, str(Path.home()) in PAGE, " at 0x" in PAGE) == ([], False, False)


def test_defaults_that_are_not_plain_are_left_out():
    def show(a=os.environ, b=inspect.signature, c=("x", 1), d=None, *, e: "dict[str, int]" = EMPTY, **more):
        """Shows it."""

    assert python_api._signature("show", show) == [
        "    show(a=…, b=…, c=('x', 1), d=None, *, e: dict[str, int] = {}, **more)",
        "",
    ]


def test_a_struct_is_shown_with_its_fields_though_their_types_cannot_be_looked_up():
    class Thing(msgspec.Struct):
        one: "NotImported"  # noqa: F821
        two: tuple[str, ...] = ()
        three: list[str] = msgspec.field(default_factory=list)

    assert list(python_api._parameters(Thing)) == [
        "one: NotImported",
        "two: tuple[str, ...] = ()",
        "three: list[str] = …",
    ]


def test_methods_are_told_with_what_they_return_and_whether_to_wait():
    class Thing:
        """A thing."""

        async def wait(self, seconds: float) -> bool:
            """Waits.

            More of it.
            """

        @property
        def size(self) -> int:
            """How large."""

        def _hidden(self): ...

    Thing.__module__ = "callgate.thing"
    assert list(python_api._members(Thing)) == ["`size`: How large.", "`await wait(seconds: float) -> bool`: Waits."]
