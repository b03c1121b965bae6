"""Resolves cases in every possible way, including those that change a payout."""

from manilla.cases import cases
from manilla.cases.cases import Case, CaseRefused
from manilla.cases.suspense import Action
from manilla.kit.db import Connection, Database
from manilla.payouts import states
from manilla.providers.port import RefusalCode
from manilla.transfers.events import SettlementEvent, Source, TransferEvent


async def resolve(db: Database | Connection, case_id: int, note: str, action: Action) -> Case:
    return await cases.resolve(db, case_id, note, action, reverse=_reverse)


async def _reverse(connection: Connection, case: Case) -> None:
    """Reverses a completed payout that did not arrive, as if its provider had reversed it."""
    event = SettlementEvent(
        TransferEvent.REVERSED,
        Source.ADMINISTRATOR,
        RefusalCode.GATEWAY_PAYOUT_FAILED,
        circumstance=f", case {case.id}",
    )
    if not await states.settle_within(connection, case.merchant_id, case.reference, event):
        raise CaseRefused("The payout is no longer completed.")
