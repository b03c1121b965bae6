"""Opens cases about transfers, for an administrator. Opening a case moves no money."""

from collections.abc import Callable

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.providers import claims
from manilla.providers.claims import Claimed, ClaimReader
from manilla.providers.port import Done, Refused, Unknown, WebhookSubject
from manilla.transfers.events import ProviderAnswer, ProviderState, Transfer


async def report(
    db: Database | Connection,
    transfer: Transfer,
    kind: CaseKind,
    detail: str,
    *,
    provider: str | None = None,
) -> None:
    """Opens a case about the transfer at its provider, or at a previous provider (`provider`)."""
    await cases.open_case(
        db,
        kind,
        transfer.trx_id,
        detail,
        merchant_id=transfer.merchant_id,
        environment=transfer.environment,
        trx_id=transfer.case_trx_id,
        amount=transfer.amount,
        provider=provider or transfer.provider,
    )


async def report_unknown(db: Database, kind: WebhookSubject, job: Job) -> None:
    detail = f"A provider sent a signed webhook about a {kind} that we did not send."
    await cases.open_case(
        db, CaseKind.UNKNOWN_REFERENCE, job.subject, detail, merchant_id=job.merchant_id
    )


async def report_other_amount(db: Database, transfer: Transfer, amount: Money | None) -> bool:
    """Opens a case and returns True if the provider reports a different amount than we sent."""
    if amount is None or amount == transfer.amount:
        return False
    detail = f"The provider reports {amount}; {transfer.amount} was sent."
    await report(db, transfer, CaseKind.WRONG_AMOUNT, detail)
    return True


async def report_not_as_accepted(db: Database, transfer: Transfer) -> None:
    """Opens a case about a transfer that was changed in the database after it was accepted."""
    detail = (
        "The transfer was changed in the database after it was accepted, so it is not sent. "
        "No money was moved."
    )
    await report(db, transfer, CaseKind.NOT_AS_ACCEPTED, detail)


async def report_needed_action(db: Database, transfer: Transfer, state: ProviderState) -> None:
    """Opens a case immediately if the transfer needs a manual action at the provider."""
    if state.needs_action:
        await report(db, transfer, CaseKind.STILL_OPEN, state.needs_action)


async def report_overdue(
    db: Database, transfer: Transfer, days: int, answer: ProviderAnswer
) -> None:
    """Opens a case about a transfer that is open for days, with the provider's last answer."""
    match answer:
        case Done():
            reason = "the provider reports that the transfer is in progress"
        case Refused(_, reason) | Unknown(reason):
            pass
    detail = f"Open for more than {days} day: {reason.rstrip('.')}."
    await report(db, transfer, CaseKind.NO_ANSWER, detail)


async def report_webhooks(
    db: Database | Connection,
    reader: ClaimReader | Database | Connection,
    kind: WebhookSubject,
    transfer: Transfer,
    contradiction: Callable[[str], str | None] | None = None,
) -> float:
    """Opens a case for each signed webhook with another amount or currency than we sent.

    `contradiction` explains why a status that a webhook reports cannot be true, or returns None.
    Returns the number of seconds for which the provider's response must not be applied.
    """
    said = await claims_about(reader, kind, transfer)
    for status in sorted({claim.status for claim in said if claim.status and contradiction}):
        assert contradiction is not None
        if (detail := contradiction(status)) is not None:
            await report(db, transfer, CaseKind.CONTRADICTION, detail)
    disagreeing = [claim for claim in said if not claim.agrees_with(transfer.amount)]
    for claim in disagreeing:
        detail = f"A signed webhook says {claim.text}; {transfer.amount} was sent."
        await report(db, transfer, CaseKind.WEBHOOK_DISAGREES, detail)
    return claims.confirmation_wait_seconds(disagreeing)


async def claims_about(
    reader: ClaimReader | Database | Connection, kind: WebhookSubject, transfer: Transfer
) -> list[Claimed]:
    """Returns the contents of signed webhooks about the transfer from its own provider."""
    if transfer.provider is None or transfer.environment is Environment.SANDBOX:
        return []
    key = kind, transfer.merchant_id, transfer.trx_id, transfer.provider
    return await claims.claims_of(reader, *key)
