"""Resolves cases: the administrator's options, and the money that each option moves."""

import msgspec

from manilla.audit import audit
from manilla.cases import cases
from manilla.cases.cases import NOTE_LENGTH_MAX, Case, CaseAction, CaseKind, CaseRefused
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.payments import store as payments
from manilla.payments import suspense
from manilla.payments.suspense import NothingInSuspense
from manilla.payouts import states
from manilla.payouts import store as payouts
from manilla.providers.port import RefusalCode
from manilla.resolutions import clearing_adjustment
from manilla.transfers.events import Source, TransferEvent, TransferResult

VANISHED_NOTE = "The problem no longer exists."
_NOTHING = {CaseAction.NOTHING: "You have reviewed the case, and no money needs to be moved."}
_UNKNOWN_DISPUTE = {
    CaseAction.NOTHING: "You have recorded the dispute with its payment, or it is not ours. If the "
    "provider took money for which no payment is left, record that loss with `manilla settle fee`."
}


class AmountChanged(Refusal):
    status, code = 409, "AMOUNT_CHANGED"
    message = "The amount has changed in the meantime. Review the case again."


class ResolutionOption(msgspec.Struct, frozen=True):
    """An option to resolve a case: the action for `resolve`, and a description."""

    name: CaseAction
    explanation: str


async def options(db: Database | Connection, case: Case) -> list[ResolutionOption]:
    """Returns the administrator's current options to resolve the case."""
    if case.status != "open":
        return []
    if held := await suspense.find_suspended(db, case.merchant_id, case.reference):
        found = {each: f"{held.amount}: {text}" for each, text in suspense.EXPLANATIONS.items()}
    else:
        found = _UNKNOWN_DISPUTE if case.kind == CaseKind.UNKNOWN_DISPUTE else _NOTHING
        if case.kind == CaseKind.CONTRADICTION:
            more = await clearing_adjustment.options(db, case)
            found = more | _NOTHING
    return [ResolutionOption(action, text) for action, text in found.items()]


async def amount(db: Database | Connection, case: Case) -> Money | None:
    """Returns the amount that a resolution moves: the money in suspense, or the case's amount.

    More money can arrive while the case is open.
    """
    held = await suspense.find_suspended(db, case.merchant_id, case.reference)
    return case.amount if held is None else held.amount


async def check(
    connection: Connection,
    case_id: int,
    note: str,
    action: CaseAction,
    *,
    merchant_id: int | None = None,
) -> None:
    """Raises the error that `resolve` would raise now."""
    _check_note(note)
    case = await cases.find(connection, case_id, merchant_id=merchant_id)
    cases.check_open(case)
    await _check_option(connection, case, action)


async def resolve(
    db: Database | Connection,
    case_id: int,
    note: str,
    action: CaseAction,
    *,
    merchant_id: int | None = None,
    seen: Money | None = None,
) -> Case:
    """Resolves a case and moves its money exactly once.

    `merchant_id` is needed only if several merchants have a case with this number. `seen` is the
    amount that the administrator saw: if it has changed, nothing is moved.
    """
    _check_note(note)
    async with transaction_of(db) as connection:
        case = await _locked(connection, case_id, merchant_id)
        await _check_option(connection, case, action)
        moved = await amount(connection, case)
        if seen is not None and seen != moved:
            raise AmountChanged
        await _move_money(connection, case, action, f"case {case.id}: {note}")
        await cases.close_case(connection, case, f"{action}: {note}")
        await audit.record(
            connection,
            "case.resolve",
            f"case:{case.id}",
            merchant_id=case.merchant_id or None,
            kind=case.kind,
            reference=case.reference,
            action_taken=action,
            note=note,
            environment=case.environment,
            amount=None if action is CaseAction.NOTHING else moved,
        )
    return await cases.find(db, case_id, merchant_id=case.merchant_id)


async def _move_money(connection: Connection, case: Case, action: CaseAction, reason: str) -> None:
    key = case.merchant_id, case.reference
    match action:
        case CaseAction.CREDIT | CaseAction.RETURN | CaseAction.KEEP:
            await suspense.release(connection, *key, action, reason)
        case CaseAction.WRITE_OFF | CaseAction.DEBIT:
            await clearing_adjustment.adjust(connection, case, action, reason)
        case CaseAction.REVERSE:
            await _reverse(connection, case)


async def _reverse(connection: Connection, case: Case) -> None:
    """Reverses a completed payout that did not arrive, as if its provider had reversed it."""
    event = TransferResult(
        TransferEvent.REVERSED,
        Source.ADMINISTRATOR,
        RefusalCode.GATEWAY_PAYOUT_FAILED,
        circumstance=f", case {case.id}",
    )
    if not await states.apply_result_within(connection, case.merchant_id, case.reference, event):
        raise CaseRefused("The payout is no longer completed.")


async def close_vanished(
    db: Database | Connection, case_id: int, *, merchant_id: int | None = None
) -> Case:
    """Closes a case if its problem no longer exists."""
    case = await cases.find(db, case_id, merchant_id=merchant_id)
    cases.check_open(case)
    if case.vanished_at is None:
        raise CaseRefused(
            f"The problem of case {case_id} still exists: resolve it with a note instead."
        )
    return await resolve(
        *(db, case_id, VANISHED_NOTE, CaseAction.NOTHING), merchant_id=case.merchant_id
    )


async def _locked(connection: Connection, case_id: int, merchant_id: int | None) -> Case:
    """Locks the transaction, then the case: the same order as functions that open cases."""
    case = await cases.find(connection, case_id, merchant_id=merchant_id)
    if case.trx_id is not None:
        await payments.payment(connection, case.merchant_id, case.trx_id, lock=True)
        await payouts.payout(connection, case.merchant_id, case.trx_id, lock=True)
    return await cases.lock(connection, case)


def _check_note(note: str) -> None:
    if not is_line(note, NOTE_LENGTH_MAX):
        raise CaseRefused(f"A note must have 1 to {NOTE_LENGTH_MAX} printable characters.")


async def _check_option(connection: Connection, case: Case, action: CaseAction) -> None:
    allowed = [option.name for option in await options(connection, case)]
    if action in allowed:
        return
    if action in suspense.EXPLANATIONS:
        raise NothingInSuspense
    if CaseAction.NOTHING not in allowed:
        raise CaseRefused(
            f"This case has money in suspense: use `--action {'`, `'.join(allowed)}`."
        )
    raise CaseRefused(f"This case can be resolved with: {', '.join(allowed)}.")
