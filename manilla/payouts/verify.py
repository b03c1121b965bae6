"""The response of verify-payout, and the item of a payout in a list."""

from decimal import Decimal

import msgspec

from manilla.kit.clock import iso_of_sql
from manilla.kit.db import columns, only_if
from manilla.kit.money import amount_of
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.payouts.payout import PayoutErrorCode, PayoutStatus

EVENT = "payout"
PENDING = "Payout is still pending."
FAILED = "Payout failed or was canceled."

# Read once: see `payments/verify.py`.
_COMPLETED, _PENDING = PayoutStatus.COMPLETED, PayoutStatus.PENDING


class DeliveredPayout(msgspec.Struct, frozen=True):
    status: str
    event: str
    trx_id: str
    ref_trx: str
    amount: Decimal
    fee: Decimal
    currency: str
    net_amount: Decimal
    description: str | None
    session_id: str | None  # of the interbank transfer (NIP)
    created_at: str
    updated_at: str


class UndeliveredPayout(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pending payout, or a failed one with its error code."""

    status: str
    event: str
    trx_id: str
    ref_trx: str
    message: str
    error_code: str | None = None


class ListedUndeliveredPayout(
    UndeliveredPayout, frozen=True, gc=False, kw_only=True, omit_defaults=True
):
    """A pending or failed payout in a list."""

    created_at: str


class ReportedPayout(msgspec.Struct, frozen=True, gc=False):
    """The columns of a payout that the response needs: read as those of ReportedPayment."""

    status: PayoutStatus
    trx_id: str
    ref_trx: str
    currency: str
    amount_minor: int
    fee_minor: int
    description: str | None
    session_id: str | None
    error_code: PayoutErrorCode | None
    guidance: str | None
    created_at: str  # as SQL writes it
    updated_at: str


COLUMNS = columns(
    ReportedPayout,
    created_at="created_at::text",
    **only_if(
        f"status = '{_COMPLETED}'",
        *("currency", "amount_minor", "fee_minor", "description", "session_id"),
        updated_at="updated_at::text",
    ),
)


async def verify(
    reader: TransactionReader, tenant: Tenant, trx_id: str
) -> DeliveredPayout | UndeliveredPayout:
    found = await reader.read("payout", COLUMNS, tenant, trx_id)
    return describe(ReportedPayout(*found))


def describe(payout: ReportedPayout) -> DeliveredPayout | UndeliveredPayout:
    if payout.status == _COMPLETED:
        return _delivered(payout)
    return UndeliveredPayout(*_undelivered(payout))


def describe_listed(payout: ReportedPayout) -> DeliveredPayout | ListedUndeliveredPayout:
    """Returns the response of verify-payout, with the time of creation."""
    if payout.status == _COMPLETED:
        return _delivered(payout)
    created_at = iso_of_sql(payout.created_at)
    return ListedUndeliveredPayout(*_undelivered(payout), created_at=created_at)


def _delivered(payout: ReportedPayout) -> DeliveredPayout:
    amount = amount_of(payout.currency, payout.amount_minor)
    return DeliveredPayout(
        status="success",
        event=EVENT,
        trx_id=payout.trx_id,
        ref_trx=payout.ref_trx,
        amount=amount,
        fee=amount_of(payout.currency, payout.fee_minor),
        currency=payout.currency,
        net_amount=amount,
        description=payout.description,
        session_id=payout.session_id,
        created_at=iso_of_sql(payout.created_at),
        updated_at=iso_of_sql(payout.updated_at),
    )


def _undelivered(payout: ReportedPayout) -> tuple[str, str, str, str, str, str | None]:
    """Returns the fields of UndeliveredPayout."""
    status, message = "pending", PENDING
    if payout.status != _PENDING:
        status, message = "failed", f"{FAILED} {payout.guidance or ''}".rstrip()
    return status, EVENT, payout.trx_id, payout.ref_trx, message, payout.error_code
