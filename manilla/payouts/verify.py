"""The response of verify-payout."""

from decimal import Decimal

import msgspec

from manilla.kit import clock
from manilla.kit.db import Database
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import transactions
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.payouts import store
from manilla.payouts.payout import Payout, PayoutStatus

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


async def verify(
    db: Database, caller: Caller, trx_id: str, ticket: RateTicket
) -> DeliveredPayout | UndeliveredPayout:
    tenant = Tenant(caller.merchant_id, caller.environment)
    record = await transactions.find_counted(
        db, "payout", store.PAYOUT_COLUMNS, tenant, trx_id, ticket
    )
    return describe(store.read(record))


def describe(payout: Payout) -> DeliveredPayout | UndeliveredPayout:
    if payout.status is PayoutStatus.COMPLETED:
        return DeliveredPayout(
            status="success",
            event=EVENT,
            trx_id=payout.trx_id,
            ref_trx=payout.ref_trx,
            amount=payout.amount.amount,
            fee=payout.fee.amount,
            currency=payout.currency,
            net_amount=payout.amount.amount,
            description=payout.description,
            session_id=payout.session_id,
            created_at=clock.iso(payout.created_at),
            updated_at=clock.iso(payout.updated_at),
        )
    is_pending = payout.status is PayoutStatus.PENDING
    return UndeliveredPayout(
        status="pending" if is_pending else "failed",
        event=EVENT,
        trx_id=payout.trx_id,
        ref_trx=payout.ref_trx,
        message=PENDING if is_pending else f"{FAILED} {payout.guidance or ''}".rstrip(),
        error_code=payout.error_code,
    )


def describe_listed(payout: Payout) -> DeliveredPayout | ListedUndeliveredPayout:
    """Returns the response of verify-payout, with the time of creation."""
    answer = describe(payout)
    if isinstance(answer, DeliveredPayout):
        return answer
    fields = msgspec.structs.asdict(answer)
    return ListedUndeliveredPayout(**fields, created_at=clock.iso(payout.created_at))
