"""The response of verify-payout, and the item of a payout in a list."""

from decimal import Decimal

import msgspec

from manilla.kit.clock import iso_sql
from manilla.kit.db import columns
from manilla.kit.money import Money
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.payouts.payout import PayoutErrorCode, PayoutStatus

EVENT = "payout"
PENDING = "Payout is still pending."
FAILED = "Payout failed or was canceled."


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


class UndeliveredPayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pending payout, or a failed one with its error code."""

    status: str
    event: str
    trx_id: str
    ref_trx: str
    message: str
    error_code: str | None = None


class ListedUndeliveredPayout(UndeliveredPayout, frozen=True, kw_only=True, omit_defaults=True):
    """A pending or failed payout in a list."""

    created_at: str


class ReportedPayout(msgspec.Struct, frozen=True):
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
    created_at: str
    updated_at: str


COLUMNS = columns(
    ReportedPayout, created_at=iso_sql("created_at"), updated_at=iso_sql("updated_at")
)


async def verify(
    reader: TransactionReader, tenant: Tenant, trx_id: str
) -> DeliveredPayout | UndeliveredPayout:
    found = await reader.read("payout", COLUMNS, tenant, trx_id)
    return describe(ReportedPayout(*found))


def describe(payout: ReportedPayout) -> DeliveredPayout | UndeliveredPayout:
    if payout.status == PayoutStatus.COMPLETED:
        amount = Money(payout.currency, payout.amount_minor).amount
        return DeliveredPayout(
            status="success",
            event=EVENT,
            trx_id=payout.trx_id,
            ref_trx=payout.ref_trx,
            amount=amount,
            fee=Money(payout.currency, payout.fee_minor).amount,
            currency=payout.currency,
            net_amount=amount,
            description=payout.description,
            session_id=payout.session_id,
            created_at=payout.created_at,
            updated_at=payout.updated_at,
        )
    is_pending = payout.status == PayoutStatus.PENDING
    return UndeliveredPayout(
        status="pending" if is_pending else "failed",
        event=EVENT,
        trx_id=payout.trx_id,
        ref_trx=payout.ref_trx,
        message=PENDING if is_pending else f"{FAILED} {payout.guidance or ''}".rstrip(),
        error_code=payout.error_code,
    )


def describe_listed(payout: ReportedPayout) -> DeliveredPayout | ListedUndeliveredPayout:
    """Returns the response of verify-payout, with the time of creation."""
    answer = describe(payout)
    if isinstance(answer, DeliveredPayout):
        return answer
    fields = msgspec.structs.astuple(answer)
    return ListedUndeliveredPayout(*fields, created_at=payout.created_at)
