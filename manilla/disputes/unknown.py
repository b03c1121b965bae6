"""Cases about disputes that fit no payment, or whose amount exceeds their payment."""

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit.database.connections import Connection, Database
from manilla.kit.money import Money
from manilla.payments.payment import Payment


async def open_case(
    db: Connection | Database,
    provider: str,
    reference: str,
    detail: str,
    payment: Payment | None = None,
    amount: Money | None = None,
) -> None:
    await cases.open_case(
        *(db, CaseKind.UNKNOWN_DISPUTE, _case_reference(provider, reference), detail),
        merchant_id=0 if payment is None else payment.merchant_id,
        environment=None if payment is None else payment.environment,
        trx_id=None if payment is None else payment.trx_id,
        amount=amount,
        provider=provider,
    )


async def close_case(
    connection: Connection, merchant_id: int, provider: str, reference: str
) -> None:
    """Closes the case of a dispute that its payment did not cover before, such as an unpaid one."""
    resolution = "The dispute belongs to a payment now, which covers it."
    key = CaseKind.UNKNOWN_DISPUTE, _case_reference(provider, reference)
    await cases.close(connection, merchant_id, *key, resolution)


def _case_reference(provider: str, reference: str) -> str:
    return f"{provider}:{reference}"
