"""A merchant's approval thresholds, and the restriction to saved accounts.

A change that weakens the protection also needs a second person, if the team has one.
"""

from typing import Any

import msgspec

from manilla.audit import audit
from manilla.audit.actor import current
from manilla.beneficiaries import accounts
from manilla.kit.database.connections import Connection, Database
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.merchants import merchants
from manilla.people import members, second_person


class SecondPersonLeft(Refusal):
    code = "SECOND_PERSON_LEFT"
    message = (
        "Somebody who could approve this left your team in the last 24 hours. Try again tomorrow, "
        "or let another owner or finance member approve it."
    )


class ProtectionChange(msgspec.Struct, frozen=True):
    """A change to the protection of a merchant's payouts."""

    merchant_id: int


class ThresholdChange(ProtectionChange, frozen=True, tag="payout_threshold"):
    currency: str
    amount_minor: int | None  # None if no payout in this currency needs approval

    @property
    def amount(self) -> Money | None:
        return None if self.amount_minor is None else Money(self.currency, self.amount_minor)


class LockChange(ProtectionChange, frozen=True, tag="accounts_lock"):
    is_locked: bool


class AccountAddition(ProtectionChange, frozen=True, tag="saved_account"):
    method_code: str
    beneficiary: dict[str, str]
    account_name: str | None
    label: str | None


async def thresholds(db: Database | Connection, merchant_id: int) -> dict[str, Money]:
    """Maps each currency to the amount above which a second person must approve a payout."""
    records = await db.records(
        """
        SELECT currency, amount_minor FROM payout_threshold
         WHERE merchant_id = $1 AND amount_minor IS NOT NULL ORDER BY currency""",
        merchant_id,
    )
    return {each["currency"]: Money(each["currency"], each["amount_minor"]) for each in records}


async def is_locked(db: Database | Connection, merchant_id: int) -> bool:
    return (await merchants.get(db, merchant_id)).accounts_locked


async def is_on(db: Database | Connection, merchant_id: int) -> bool:
    """Whether the merchant has a threshold in any currency, or pays only to saved accounts."""
    return await is_locked(db, merchant_id) or bool(await thresholds(db, merchant_id))


async def needs_second(
    connection: Connection, change: ProtectionChange, person_id: int | None
) -> bool:
    """Whether a second person must approve the change.

    A merchant that has no second person can change its protection alone. Raises SecondPersonLeft if
    somebody who could approve the change has just left the team.
    """
    if not await _weakens(connection, change):
        return False
    if await second_person.has_second(connection, change.merchant_id, person_id):
        return True
    if await members.has_lost_approver(connection, change.merchant_id):
        raise SecondPersonLeft
    return False


async def _weakens(connection: Connection, change: ProtectionChange) -> bool:
    match change:
        case ThresholdChange():
            before = (await thresholds(connection, change.merchant_id)).get(change.currency)
            if before is None:
                return False
            return change.amount is None or change.amount > before
        case LockChange():
            return not change.is_locked and await is_locked(connection, change.merchant_id)
        case AccountAddition():
            return await is_locked(connection, change.merchant_id)
    raise AssertionError(change)


async def apply(connection: Connection, change: ProtectionChange) -> int | None:
    """Applies the change. If the change adds a saved account, returns the account's id."""
    match change:
        case ThresholdChange():
            await _set_threshold(connection, change)
        case LockChange():
            await _set_lock(connection, change)
        case AccountAddition():
            return await accounts.add(
                connection,
                change.merchant_id,
                change.method_code,
                change.beneficiary,
                account_name=change.account_name,
                label=change.label,
            )
    return None


async def _set_threshold(connection: Connection, change: ThresholdChange) -> None:
    merchant_id, amount = change.merchant_id, change.amount
    if amount is not None:
        await second_person.check_has_second(connection, merchant_id, current.get().id)
    before = (await thresholds(connection, merchant_id)).get(change.currency)
    await connection.execute(
        """
        INSERT INTO payout_threshold (merchant_id, currency, amount_minor) VALUES ($1, $2, $3)
            ON CONFLICT (merchant_id, currency)
            DO UPDATE SET amount_minor = excluded.amount_minor, updated_at = now()""",
        *(merchant_id, change.currency, change.amount_minor),
    )
    changed = audit.difference({change.currency: before}, {change.currency: amount})
    await _record(connection, merchant_id, "protection.threshold", changed)


async def _set_lock(connection: Connection, change: LockChange) -> None:
    before = await is_locked(connection, change.merchant_id)
    await merchants.lock_accounts(connection, change.merchant_id, is_locked=change.is_locked)
    changed = audit.difference({"locked": before}, {"locked": change.is_locked})
    await _record(connection, change.merchant_id, "protection.lock", changed)


async def _record(
    connection: Connection, merchant_id: int, action: str, changed: dict[str, Any]
) -> None:
    if changed:
        subject = f"merchant:{merchant_id}"
        await audit.record(connection, action, subject, merchant_id=merchant_id, changed=changed)


def describe(change: ProtectionChange) -> dict[str, Any]:
    """Returns a description of the change for the second person."""
    match change:
        case ThresholdChange():
            text = "no threshold" if change.amount is None else money(change.amount)
            return {"currency": change.currency, "second person above": text}
        case LockChange():
            who = "saved accounts only" if change.is_locked else "all accounts"
            return {"payouts go to": who}
        case AccountAddition():
            named = {"method": change.method_code, **change.beneficiary}
            return named | {"name": change.account_name, "label": change.label}
    raise AssertionError(change)


async def mail_team(connection: Connection, change: ProtectionChange) -> None:
    """Emails the other users who may approve the change."""
    what, path = "a change to the protection of payouts", "/dashboard/production/protection"
    await second_person.mail_team(connection, change.merchant_id, current.get(), what, path)
