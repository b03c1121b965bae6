"""A dossier is a merchant's business verification. An administrator approves or rejects it."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.audit.actor import current
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.kit.money import Money

NOTE_LENGTH_MAX = 1_000


class DossierState(StrEnum):
    DRAFT = "draft"
    SUBMITTED = "submitted"
    NEEDS_INFORMATION = "needs_information"
    APPROVED = "approved"
    REJECTED = "rejected"


# The allowed status transitions. An administrator who approves a draft must give a reason.
NEXT = {
    DossierState.DRAFT: (DossierState.SUBMITTED, DossierState.APPROVED, DossierState.REJECTED),
    DossierState.SUBMITTED: (
        DossierState.NEEDS_INFORMATION,
        DossierState.APPROVED,
        DossierState.REJECTED,
    ),
    DossierState.NEEDS_INFORMATION: (
        DossierState.SUBMITTED,
        DossierState.APPROVED,
        DossierState.REJECTED,
    ),
    DossierState.APPROVED: (DossierState.NEEDS_INFORMATION, DossierState.REJECTED),
    DossierState.REJECTED: (DossierState.SUBMITTED, DossierState.APPROVED),
}
EDITABLE = (DossierState.DRAFT, DossierState.NEEDS_INFORMATION, DossierState.REJECTED)


class Dossier(msgspec.Struct, frozen=True):
    merchant_id: int
    state: DossierState
    legal_form: str | None
    legal_name: str | None
    registration_number: str | None
    address: str | None
    directors: list[str]
    website: str | None
    has_no_website: bool
    volume_currency: str | None
    volume_minor: int | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_editable(self) -> bool:
        return self.state in EDITABLE

    @property
    def expected_volume(self) -> Money | None:
        """The amount that the merchant expects to receive per month."""
        if self.volume_currency is None or self.volume_minor is None:
            return None
        return Money(self.volume_currency, self.volume_minor)


class DossierEvent(msgspec.Struct, frozen=True):
    state: DossierState
    note: str  # shown to the merchant
    reason: str  # for administrators only
    by: str
    created_at: datetime


class DossierClosed(Refusal):
    status, code = 409, "DOSSIER_CLOSED"
    message = "The verification cannot be changed while it is under review or after its approval."


class DossierMoved(Refusal):
    status, code = 409, "DECIDED_MEANWHILE"
    message = "The verification's state has changed in the meantime. Review it again."


class DossierIncomplete(Refusal):
    status, code = 422, "DOSSIER_INCOMPLETE"
    message = "Complete all sections before you submit."


class BadNote(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "Enter a note. The merchant will see it."


async def find(db: Database | Connection, merchant_id: int) -> Dossier | None:
    return await db.row(
        Dossier, f"SELECT {columns(Dossier)} FROM dossier WHERE merchant_id = $1", merchant_id
    )


async def history(db: Database, merchant_id: int) -> list[DossierEvent]:
    return await db.rows(
        DossierEvent,
        f"SELECT {columns(DossierEvent)} FROM dossier_event WHERE merchant_id = $1"
        " ORDER BY id DESC LIMIT 50",
        merchant_id,
    )


async def lock(connection: Connection, merchant_id: int) -> Dossier | None:
    return await connection.row(
        Dossier,
        f"SELECT {columns(Dossier)} FROM dossier WHERE merchant_id = $1 FOR UPDATE",
        merchant_id,
    )


async def lock_to_edit(connection: Connection, merchant_id: int) -> Dossier:
    """Locks the dossier, or creates it. Raises if the merchant may not change it now."""
    await connection.execute(
        "INSERT INTO dossier (merchant_id) VALUES ($1) ON CONFLICT DO NOTHING", merchant_id
    )
    found = await lock(connection, merchant_id)
    assert found is not None
    if not found.is_editable:
        raise DossierClosed
    return found


async def save(db: Database, merchant_id: int, values: Mapping[str, Any]) -> None:
    """Saves one section: columns of the dossier with values that the caller has validated."""
    names = list(values)
    assert set(names) <= set(Dossier.__struct_fields__)
    changed = ", ".join(f"{name} = ${number}" for number, name in enumerate(names, start=2))
    async with db.transaction() as connection:
        await lock_to_edit(connection, merchant_id)
        await connection.execute(
            f"UPDATE dossier SET {changed}, updated_at = now() WHERE merchant_id = $1",
            *(merchant_id, *values.values()),
        )
        subject = f"dossier:{merchant_id}"
        await audit.record(
            connection, "dossier.save", subject, merchant_id=merchant_id, fields=names
        )


async def move(
    connection: Connection, dossier: Dossier, state: DossierState, *, note: str, reason: str = ""
) -> None:
    """Changes a locked dossier's state, and adds the change to its history."""
    if state not in NEXT[dossier.state]:
        state_now = dossier.state.replace("_", " ")
        raise DossierMoved(f"The verification is now {state_now}. Check it again.")
    await connection.execute(
        "UPDATE dossier SET state = $2, updated_at = now() WHERE merchant_id = $1",
        *(dossier.merchant_id, state),
    )
    await connection.execute(
        "INSERT INTO dossier_event (merchant_id, state, note, reason, by)"
        " VALUES ($1, $2, $3, $4, $5)",
        *(dossier.merchant_id, state, note, reason, current.get().name),
    )


async def record_move(
    connection: Connection, dossier: Dossier, state: DossierState, **detail: Any
) -> None:
    """Writes the audit entry for a transition. Must be the last call in the transaction."""
    await audit.record(
        connection,
        f"dossier.{state}",
        f"dossier:{dossier.merchant_id}",
        merchant_id=dossier.merchant_id,
        changed={"state": {"before": dossier.state, "after": state}},
        **detail,
    )
