"""Submits a dossier, and applies an administrator's decisions on the dossier and merchant."""

from manilla.compliance import dossiers, sections
from manilla.compliance.dossiers import (
    NOTE_LENGTH_MAX,
    BadNote,
    Dossier,
    DossierIncomplete,
    DossierMoved,
    DossierState,
)
from manilla.compliance.sections import DossierView
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import LINE_ENDS, has_controls
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants import merchants
from manilla.merchants.merchants import (
    BadMerchant,
    MerchantLevel,
    MerchantStatus,
    MerchantUpdate,
)
from manilla.merchants.queries import MerchantRow

UNDECIDED = (MerchantStatus.PENDING, MerchantStatus.REJECTED)
STATES = {
    MerchantStatus.APPROVED: DossierState.APPROVED,
    MerchantStatus.REJECTED: DossierState.REJECTED,
}

# The type of email for each decision, and the template variables that contain the note.
MAILS = {
    DossierState.APPROVED: (MailKind.MERCHANT_APPROVED, ()),
    DossierState.NEEDS_INFORMATION: (MailKind.MERCHANT_NEEDS_INFORMATION, ("wanted",)),
    DossierState.REJECTED: (MailKind.MERCHANT_REJECTED, ("reason",)),
}


class ReasonRequired(Refusal):
    status, code = 422, "REASON_REQUIRED"
    message = "The KYC information is incomplete. Enter a reason for the approval."


async def submit(db: Database, merchant_id: int) -> None:
    async with db.transaction() as connection:
        dossier = await dossiers.lock_to_edit(connection, merchant_id)
        view = await sections.view(connection, await merchants.get(connection, merchant_id))
        if view.missing:
            raise DossierIncomplete(f"Complete these sections first: {', '.join(view.missing)}.")
        await dossiers.move(connection, dossier, DossierState.SUBMITTED, note="")
        await outbox.put(
            connection,
            MailKind.MERCHANT_SUBMITTED,
            {"merchant": view.merchant.name},
            path=f"/console/merchants/{merchant_id}",
        )
        await dossiers.record_move(connection, dossier, DossierState.SUBMITTED)


async def decide_merchant(
    db: Database,
    keyring: Keyring,
    merchant_id: int,
    status: MerchantStatus,
    reason: str,
    *,
    was: MerchantStatus,
    needs_dossier: bool,
) -> None:
    """Approves, rejects or disables a merchant, if its status is still `was`.

    If the merchant was pending or rejected, the decision also applies to its dossier. A dossier
    that already has the decision stays as it is.
    """
    reason = reason.strip()
    if status is MerchantStatus.REJECTED and not reason:
        text = "Enter a reason. The merchant will see it."
        raise BadMerchant(text, errors={"reason": "Enter a reason."})
    is_approved = status is MerchantStatus.APPROVED
    async with db.transaction() as connection:
        dossier = await dossiers.lock(connection, merchant_id)
        state = _next_state(dossier, status, was)
        if is_approved and was in UNDECIDED:
            await _check_reason(connection, merchant_id, reason, needs_dossier=needs_dossier)
        if dossier and state:
            await _move(connection, dossier, state, reason)
        wanted = MerchantUpdate(
            status=status,
            # The merchant does not see the reason for an approval.
            status_reason=None if is_approved else reason or None,
            status_was=was,
            level=_next_level(dossier, state),
        )
        await merchants.change(connection, keyring, merchant_id, wanted)
        if dossier and state:
            await dossiers.record_move(connection, dossier, state, note=reason)


async def decide_dossier(
    db: Database,
    keyring: Keyring,
    merchant_id: int,
    state: DossierState,
    note: str,
    *,
    was: DossierState,
) -> None:
    """Decides on the dossier, and sets the merchant's level, but not its status."""
    note = note.strip()
    async with db.transaction() as connection:
        dossier = await dossiers.lock(connection, merchant_id)
        if dossier is None or dossier.state != was:
            raise DossierMoved
        if state is DossierState.APPROVED:
            await _check_reason(connection, merchant_id, note, needs_dossier=True)
        elif not note:
            raise BadNote(errors={"note": "Enter a note. The merchant will see it."})
        await _move(connection, dossier, state, note)
        await _report(connection, await merchants.get(connection, merchant_id), state, note)
        if level := _next_level(dossier, state):
            wanted = MerchantUpdate(level=level)
            await merchants.change(connection, keyring, merchant_id, wanted)
        await dossiers.record_move(connection, dossier, state, note=note)


def _next_state(
    dossier: Dossier | None, status: MerchantStatus, was: MerchantStatus
) -> DossierState | None:
    """Returns the dossier's new state after a decision on its merchant, or None."""
    state = STATES.get(status)
    if dossier is None or was not in UNDECIDED or state == dossier.state:
        return None
    return state


def _next_level(dossier: Dossier | None, state: DossierState | None) -> MerchantLevel | None:
    """Returns the merchant's new level after its dossier moved to `state`, or None."""
    if state is DossierState.APPROVED:
        return MerchantLevel.VERIFIED
    was_approved = dossier is not None and dossier.state == DossierState.APPROVED
    return MerchantLevel.UNVERIFIED if was_approved and state is DossierState.REJECTED else None


async def _report(
    connection: Connection, merchant: MerchantRow, state: DossierState, note: str
) -> None:
    """Emails the owners about a decision on the dossier."""
    kind, facts = MAILS[state]
    shown = {"merchant": merchant.name, **dict.fromkeys(facts, note)}
    if state is not DossierState.APPROVED or merchant.status == MerchantStatus.APPROVED:
        path = "/dashboard/verification"
        await outbox.put(connection, kind, shown, path=path, merchant_id=merchant.id)


def needs_reason(view: DossierView, *, needs_dossier: bool) -> bool:
    """Whether an approval needs a reason because the dossier is incomplete.

    If `needs_dossier` is False, a merchant that has no dossier is approved without a reason. A
    dossier that was approved earlier needs no second reason.
    """
    if view.dossier is None:
        return needs_dossier
    return not view.is_complete and view.dossier.state != DossierState.APPROVED


async def _check_reason(
    connection: Connection, merchant_id: int, reason: str, *, needs_dossier: bool
) -> None:
    view = await sections.view(connection, await merchants.get(connection, merchant_id))
    if needs_reason(view, needs_dossier=needs_dossier) and not reason:
        raise ReasonRequired(errors={"reason": ReasonRequired.message})


async def _move(connection: Connection, dossier: Dossier, state: DossierState, text: str) -> None:
    if len(text) > NOTE_LENGTH_MAX or has_controls(text, allowed=LINE_ENDS):
        raise BadNote(f"A note has up to {NOTE_LENGTH_MAX} printable characters.")
    note, reason = ("", text) if state is DossierState.APPROVED else (text, "")
    await dossiers.move(connection, dossier, state, note=note, reason=reason)
