"""A fee invoice: what the platform earned from a merchant in a month, with the taxes on it.

An invoice never changes. A credit note cancels it, and another invoice replaces it.
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

import msgspec

from manilla.kit.clock import parse_month
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.posting import COMMISSION, PAYOUT_FEE, TAX
from manilla.posting_kinds import PostingKind

MONTH_FORMAT = "%Y-%m"

ACCOUNTS = {COMMISSION: "Commission", PAYOUT_FEE: "Payout fees"}
SUBJECTS: dict[str, str] = {
    PostingKind.PAYMENT: "payments",
    PostingKind.COMMISSION: "payments",
    PostingKind.PAYOUT: "payouts",
    PostingKind.PAYOUT_REFUND: "payouts that failed or were returned",
    PostingKind.REFUND: "refunds",
    PostingKind.COMMISSION_RETURNED: "payments that were disputed",
    PostingKind.DISPUTE_FEE: "disputes",
}


class InvoiceLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The month's entries of one account and one kind of posting."""

    account: str
    kind: str
    count: int
    minor: int  # below zero: it was returned to the merchant
    percent: Decimal | None = None  # of a tax that had one rate for all transactions of the month

    @property
    def tax(self) -> str | None:
        """The name of the tax, or None for a fee."""
        return self.account.removeprefix(TAX) if self.account.startswith(TAX) else None

    @property
    def title(self) -> str:
        account = ACCOUNTS.get(self.account) or (self.tax or self.account).replace("_", " ").upper()
        return f"{account}: {SUBJECTS.get(self.kind, self.kind.replace('_', ' '))}"


class Party(msgspec.Struct, frozen=True):
    name: str
    address: str = ""
    tax_id: str = ""
    email: str = ""


class Invoice(msgspec.Struct, frozen=True):
    merchant_id: int
    number: str
    month: date  # the first day
    currency: str
    revision: int
    amount_minor: int
    lines: list[InvoiceLine]
    supplier: Party
    customer: Party
    corrects: str | None
    reason: str
    issued_by: str
    issued_at: datetime
    authority_reference: str | None
    authority_qr: str | None

    @property
    def is_credit_note(self) -> bool:
        return self.amount_minor < 0

    @property
    def type(self) -> str:
        return "credit_note" if self.is_credit_note else "invoice"

    @property
    def title(self) -> str:
        return self.type.replace("_", " ").capitalize()

    @property
    def sign(self) -> int:
        """1, or -1 for a credit note, whose amounts are shown without a sign."""
        return -1 if self.is_credit_note else 1

    @property
    def total(self) -> Money:
        return self.shown(self.amount_minor)

    @property
    def fees(self) -> list[InvoiceLine]:
        return [line for line in self.lines if line.tax is None]

    @property
    def fee(self) -> Money:
        return self.shown(sum(line.minor for line in self.fees))

    @property
    def taxes(self) -> dict[str, Money]:
        """The sum of each tax, by its name."""
        names = sorted({line.tax for line in self.lines if line.tax is not None})
        return {name: self.shown(minor_of(self.lines, name)) for name in names}

    def percent(self, tax: str) -> Decimal | None:
        return next((line.percent for line in self.lines if line.tax == tax), None)

    def taxable(self, tax: str, percent: Decimal) -> Money:
        """Returns the fees, or the amount that has this tax if other amounts were taxed.

        The tax of each transaction was rounded, so the percentage of the fees can differ from it.
        """
        lines = [line for line in self.lines if line.tax == tax]
        fee_minor = sum(line.minor for line in self.fees)
        tax_minor = sum(line.minor for line in lines)
        rounded = Decimal(sum(line.count for line in lines)) / 2
        if abs(fee_minor * percent / 100 - tax_minor) > rounded:
            return self.shown(tax_minor).part(Decimal(100), percent)
        return self.shown(fee_minor)

    def shown(self, minor: int) -> Money:
        return Money(self.currency, self.sign * minor)

    @property
    def month_name(self) -> str:
        return self.month.strftime(MONTH_FORMAT)


class InvoiceNotFound(Refusal):
    status, code = 404, "INVOICE_NOT_FOUND"
    message = "There is no such invoice."


class InvoiceRefused(Refusal):
    status, code = 422, "invoice_refused"
    message = "The invoice cannot be issued."


def minor_of(lines: Sequence[InvoiceLine], tax: str) -> int:
    return sum(line.minor for line in lines if line.tax == tax)


def read_month(text: str) -> date:
    """Parses a month such as 2026-11. Returns its first day."""
    try:
        return parse_month(text)
    except ValueError:
        raise InvoiceRefused("A month has the form 2026-11.") from None
