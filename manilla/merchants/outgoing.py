"""Holds that stop the payouts and refunds of one merchant or of all merchants."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.platform import settings

# The types of jobs that send money. These jobs wait during a hold.
JOB_KINDS = (JobKind.TRANSFER, JobKind.SANDBOX_PAYOUT, JobKind.REFUND, JobKind.RETURN)

# A waiting job checks at this interval whether the hold has ended.
# When an administrator enables the merchant, its waiting jobs become due immediately.
WAIT_SECONDS = 30.0


class NotHeld(Refusal):
    message = "Payouts are not on hold."


class OutgoingHold(StrEnum):
    """The reason why a merchant's money is on hold.

    The SQL function `outgoing_hold` returns these values.
    """

    PAYOUTS_HELD = "payouts_held"
    MERCHANT_DISABLED = "merchant_disabled"
    MERCHANT_REJECTED = "merchant_rejected"
    MERCHANT_PENDING = "merchant_pending"
    MERCHANT_PAYOUTS_OFF = "merchant_payouts_off"
    WITHDRAWALS_OFF = "withdrawals_off"

    @property
    def text(self) -> str:
        return TEXTS[self]


TEXTS = {
    OutgoingHold.PAYOUTS_HELD: "All payouts and refunds are on hold.",
    OutgoingHold.MERCHANT_DISABLED: "The merchant is disabled.",
    OutgoingHold.MERCHANT_REJECTED: "The merchant was rejected.",
    OutgoingHold.MERCHANT_PENDING: "The merchant is not approved.",
    OutgoingHold.MERCHANT_PAYOUTS_OFF: "Payouts are disabled for the merchant.",
    OutgoingHold.WITHDRAWALS_OFF: "Withdrawals are disabled for the platform.",
}

Whose = tuple[int, Environment]


async def hold(
    db: Database | Connection,
    merchant_id: int,
    environment: Environment,
    *,
    on_behalf: bool = False,
) -> OutgoingHold | None:
    """Returns why this merchant's money is on hold, or None if it is not on hold.

    `on_behalf`: whether an administrator ordered the transfer for the merchant.
    """
    code: str | None = await db.value(
        "SELECT outgoing_hold($1, $2, $3)", *(merchant_id, environment, on_behalf)
    )
    return None if code is None else OutgoingHold(code)


async def holds(db: RowSource, whose: Collection[Whose]) -> dict[Whose, OutgoingHold]:
    """Returns the holds of several merchants. Merchants without a hold are not in the result."""
    records = await db.records(
        """
        SELECT * FROM (
               SELECT w.merchant_id, w.environment,
                      outgoing_hold(w.merchant_id, w.environment::environment, false) AS code
                 FROM unnest($1::bigint[], $2::text[]) AS w (merchant_id, environment)) AS found
         WHERE code IS NOT NULL""",
        [merchant_id for merchant_id, _ in whose],
        [environment.value for _, environment in whose],
    )
    return {
        (each["merchant_id"], Environment(each["environment"])): OutgoingHold(each["code"])
        for each in records
    }


async def hold_all(db: Database) -> None:
    """Puts all transfers on hold. During the hold, no worker sends anything."""
    await settings.change(db, "payouts_held", "true")


async def hold_start(db: Database | Connection) -> datetime | None:
    """Returns when all transfers were put on hold, or None if there is no hold. Uses no cache."""
    since: datetime | None = await db.value(
        "SELECT updated_at FROM setting WHERE key = 'payouts_held' AND value = 'true'"
    )
    return since


async def held_since(db: Database) -> datetime:
    since = await hold_start(db)
    if since is None:
        raise NotHeld
    return since
