"""Arguments and options that several commands share."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import typer

from manilla.kit.amount_input import parse_amount, parse_number
from manilla.kit.environment import Environment
from manilla.kit.money import Money, MoneyError
from manilla.ledger import trx_ids

LIST_MAX = 10_000


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


def percent(text: str) -> Decimal:
    try:
        return parse_number(text)
    except MoneyError as error:
        raise typer.BadParameter(str(error)) from None


def read_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day such as 2026-01-31.") from None


def read_money(
    amount: str, currency: str, parse: Callable[[str, str], Money] = parse_amount
) -> Money:
    try:
        return parse(amount, currency)
    except MoneyError as error:
        raise typer.BadParameter(str(error), param_hint="AMOUNT") from None


MerchantId = Annotated[
    int,
    typer.Argument(metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX, help="The merchant ID."),
]
OfMerchant = Annotated[
    int | None, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
]
InEnvironment = Annotated[Environment | None, typer.Option("--environment")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=LIST_MAX)]
TrxId = Annotated[str, typer.Argument(metavar="TRX", help="A transaction id: TXN…")]
ProviderName = Annotated[
    str, typer.Argument(metavar="PROVIDER", help="The account's name, such as providera.")
]
OptionalProvider = Annotated[str | None, typer.Argument(metavar="[PROVIDER]")]
