"""An account that money can leave. Nothing of it is real but the file of transfers."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Final

from callgate_demo.tool import USER, DataFlow, ExampleTool, ToolError, by_name

OPENING: Final = Decimal("6200.00")
MAX_TRANSFERS: Final = 1000
_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_AMOUNT: Final = re.compile(r"[0-9]{1,7}\.[0-9]{2}")
_PAYEE: Final = re.compile(r"[^\t\n\r]{1,80}")
_TRANSFERS: Final = "transfers.tsv"


class Bank:
    """The account's transfers, a line each: amount, IBAN, payee."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _TRANSFERS

    def create_files(self) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def transfers(self) -> list[tuple[str, str, str]]:
        """What has left the account, the oldest first."""
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [(amount, iban, payee) for amount, iban, payee in (line.split("\t") for line in lines)]

    def balance(self) -> Decimal:
        return OPENING - sum((Decimal(amount) for amount, _, _ in self.transfers()), Decimal(0))

    def tools(self) -> dict[str, ExampleTool]:
        takes = {
            "payee": "Who gets it.",
            "iban": "The payee's account.",
            "amount": "In EUR, such as 12.50.",
        }
        moving = DataFlow("internal", "irreversible", critical=("iban",))
        return by_name(
            ExampleTool(
                "show_account", "Show the balance.", {}, self._show, DataFlow("system", "benign", USER, "financial")
            ),
            ExampleTool(
                "transfer", "Transfer money from the user's account. It cannot be undone.", takes, self._pay, moving
            ),
        )

    def _show(self, _arguments: dict[str, str]) -> str:
        return f"Balance: {self.balance()} EUR"

    def _pay(self, arguments: dict[str, str]) -> str:
        payee, amount = arguments["payee"], arguments["amount"]
        iban = arguments["iban"].replace(" ", "")
        if not _IBAN.fullmatch(iban) or not _AMOUNT.fullmatch(amount) or not _PAYEE.fullmatch(payee):
            raise ToolError("a transfer needs a payee, an IBAN and an amount such as 12.50")
        if len(self.transfers()) >= MAX_TRANSFERS:
            raise ToolError("there are too many transfers already")
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{amount}\t{iban}\t{payee}\n")
        return f"Transferred {amount} EUR to {payee}, {iban}."
