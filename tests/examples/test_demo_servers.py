"""examples/demo: the three servers of the story by themselves, with the `mcp` SDK's client as the judge."""

import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from callgate_demo.bank import Bank
from callgate_demo.files import Files
from callgate_demo.mail import POISON, SEARCH, Mail
from callgate_demo.tool import ToolError
from support.table import rows

PAY = {"payee": "Linde Homes", "iban": "DE89 3704 0044 0532 0130 00", "amount": "850.00"}


def talking(name, folder):
    words = ["-m", "callgate.demo", name, str(folder)]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=words)))


async def test_a_transfer_leaves_the_account(tmp_path):
    async with talking("bank", tmp_path) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["transfer"].annotations.destructive_hint is True
        assert tools["show_account"].annotations.read_only_hint is True
        assert not (await client.call_tool("transfer", PAY)).is_error
        assert (await client.call_tool("show_account", {})).content[0].text == "Balance: 5350.00 EUR"
    assert Bank(tmp_path).transfers() == [("850.00", "DE89370400440532013000", "Linde Homes")]


@rows("wrong", [{"amount": "-850.00"}, {"amount": "850"}, {"iban": "nowhere"}, {"payee": "a\tb"}, {"payee": ""}])
def test_a_transfer_that_is_none_is_refused(tmp_path, wrong):
    bank = Bank(tmp_path)
    bank.create_files()
    with pytest.raises(ToolError):
        bank.tools()["transfer"].call(PAY | wrong)
    assert bank.transfers() == []


async def test_the_mail_server_changes_its_mind_while_it_runs(tmp_path):
    async with talking("mail", tmp_path) as client:

        async def described():
            return {tool.name: tool.description for tool in (await client.list_tools()).tools}["search_mail"]

        assert await described() == SEARCH
        Mail(tmp_path).set_changed(changed=True)
        assert await described() == POISON
        Mail(tmp_path).set_changed(changed=False)
        assert await described() == SEARCH
        found = (await client.call_tool("search_mail", {"word": "RENT"})).content[0].text
        assert found.startswith("2. December")
        assert (await client.call_tool("read_mail", {"number": "9"})).is_error


@rows("name", ["../rent.txt", "/etc/passwd", "rent.txt/..", ".hidden.txt", "", "rent"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    files = Files(tmp_path / "files")
    files.create_files()
    with pytest.raises(ToolError):
        files.tools()["read_file"].call({"name": name})


def test_files_that_are_there_stay_as_they_are(tmp_path):
    files = Files(tmp_path / "files")
    files.create_files()
    (tmp_path / "files" / "rent.txt").write_text("mine")
    files.create_files()
    assert files.tools()["read_file"].call({"name": "rent.txt"}) == "mine"
    assert files.tools()["list_files"].call({}) == "rent.txt\ntodo.txt"


@rows("words", [[], ["safe", "folder"], ["bank", "folder", "more"]])
def test_another_command_line_is_told_how_to_write_it(tmp_path, words):
    done = subprocess.run(
        [sys.executable, "-m", "callgate.demo", *words], capture_output=True, check=False, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "usage: " in done.stderr
    assert list(tmp_path.iterdir()) == []
