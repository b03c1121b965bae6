"""Remittance of a tax from our bank to the authority, which an administrator enters."""

from typing import Any

import msgspec

from manilla.audit import audit
from manilla.invoices import returns
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.ledger.provider_funds import NOBODY
from manilla.posting_kinds import PostingKind

REFERENCE_LENGTH_MAX = 200


class RemittanceRefused(Refusal):
    message = "This remittance cannot be posted."


class TaxRemittance(msgspec.Struct, frozen=True, tag="tax_remittance"):
    tax: str
    amount: Money
    reference: str  # of the payment to the authority
    trx_id: str | None = None  # prevents a second remittance if the form is submitted twice

    @property
    def environment(self) -> Environment:
        return Environment.PRODUCTION

    @property
    def subject(self) -> str:
        return f"tax:{self.tax}:{self.amount.currency}"

    def describe(self) -> dict[str, Any]:
        return {"tax": self.tax, "amount": self.amount, "reference": self.reference}


class Remitted(msgspec.Struct, frozen=True):
    trx_id: str
    tax: str
    amount: Money


async def check(connection: Connection, order: TaxRemittance) -> None:
    """Raises the error that `remit` would raise now."""
    if order.amount.minor <= 0:
        raise RemittanceRefused.at("amount", "The amount must be above zero.")
    if not is_line(order.reference, REFERENCE_LENGTH_MAX):
        raise RemittanceRefused.at(
            "reference", f"A reference has 1 to {REFERENCE_LENGTH_MAX} printable characters."
        )
    if order.trx_id is not None and trx_ids.merchant_of(order.trx_id) != NOBODY:
        raise RemittanceRefused("This is not the id of a remittance. Reload the page.")
    currency = order.amount.currency
    owed = await returns.balances(connection, order.tax, currency)
    liability = Money(currency, owed.get((order.tax, currency), 0))
    if order.amount.minor > liability.minor:
        raise RemittanceRefused.at("amount", f"Only {liability} of this tax is owed.")


async def remit(connection: Connection, order: TaxRemittance) -> Remitted:
    """Posts a remittance. A second one with the same `trx_id` is rejected."""
    # Serialize remittances, so that two of them cannot exceed the liability.
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('tax remitted:' || $1::text, 0))",
        order.subject,
    )
    await check(connection, order)
    trx_id = order.trx_id or trx_ids.new(NOBODY)
    minor = order.amount.minor
    [posted] = await posting.post(
        connection,
        [
            Posting(
                merchant_id=NOBODY,
                trx_id=trx_id,
                kind=PostingKind.TAX_REMITTED,
                environment=order.environment,
                wallet=Money(order.amount.currency, 0),
                lines=(Line(posting.tax(order.tax), -minor), Line(posting.BANK, minor)),
                reason=order.reference,
            )
        ],
    )
    if posted.outcome is PostingOutcome.DUPLICATE:
        raise RemittanceRefused("This remittance was posted already.")
    assert posted.outcome is PostingOutcome.POSTED
    assert PostingKind.TAX_REMITTED.audit_action is not None
    await audit.record(
        connection,
        PostingKind.TAX_REMITTED.audit_action,
        order.subject,
        environment=order.environment,
        amount=order.amount,
        reference=order.reference,
        trx_id=trx_id,
    )
    return Remitted(trx_id, order.tax, order.amount)
