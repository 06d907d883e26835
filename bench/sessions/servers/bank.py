"""An account at a bank, and the price list of a shop: `python bank.py STATE.json`."""

from __future__ import annotations

import json
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from sessions.servers import state

mcp = MCPServer("business-account", version="1.8.2")

READS = ToolAnnotations(read_only_hint=True)
WRITES = ToolAnnotations(read_only_hint=False)


@mcp.tool(annotations=READS, structured_output=False)
def list_payees() -> str:
    """List the payees that are on file"""
    return json.dumps(state.read()["payees"])


@mcp.tool(annotations=READS, structured_output=False)
def list_transactions(days: Annotated[int, Field(description="How far to look back")] = 30) -> str:  # noqa: ARG001
    """List transactions of the account"""
    return json.dumps(state.read()["transactions"])


@mcp.tool(annotations=READS, structured_output=False)
def list_products() -> str:
    """List products with their prices in euros"""
    return json.dumps(state.read()["products"])


@mcp.tool(annotations=WRITES, structured_output=False)
def transfer_money(
    iban: Annotated[str, Field(description="IBAN of the recipient")],
    recipient: Annotated[str, Field(description="Name of the recipient")],
    amount: Annotated[float, Field(description="Amount in euros")],
    reference: Annotated[str, Field(description="Reference text")] = "",
) -> str:
    """Transfer money from the account"""
    with state.changing() as known:
        known["transactions"].append({"iban": iban, "name": recipient, "amount": -amount, "reference": reference})
    return "The transfer was executed."


@mcp.tool(annotations=WRITES, structured_output=False)
def update_payee(
    payee_id: Annotated[str, Field(description="ID of the payee")],
    iban: Annotated[str, Field(description="New IBAN")],
) -> str:
    """Change the bank details of a payee"""
    with state.changing() as known:
        for payee in known["payees"]:
            if payee["id"] == payee_id:
                payee["iban"] = iban
    return "The payee was updated."


@mcp.tool(annotations=WRITES, structured_output=False)
def update_price(
    sku: Annotated[str, Field(description="Article number")],
    price: Annotated[float, Field(description="New price in euros")],
) -> str:
    """Change the price of a product in the shop"""
    with state.changing() as known:
        known["products"][sku] = price
    return "The price was changed."


if __name__ == "__main__":
    mcp.run("stdio")
