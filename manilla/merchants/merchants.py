"""Creates and changes merchants, and rotates their credentials."""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.kit import changes, jobs, money
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_email, is_line
from manilla.merchants import credentials, notices, outgoing, queries, wallets
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.queries import MERCHANT, MerchantRow

NAME_LENGTH_MAX, EMAIL_LENGTH_MAX = 100, 254
BVN_DIGITS = 11
REASON_LENGTH_MAX = 300

# Merchant fields that need no validation before they are written.
UNCHECKED_FIELDS = (
    "status",
    "commission_percent",
    "commission_bearer",
    "payouts_enabled",
    "kyc_verified",
    "phone_verified",
    "sends_receipts",
    "level",
    "overpaid",
    "underpaid",
)


class MerchantStatus(StrEnum):
    PENDING = "pending"  # the merchant can use only the sandbox until an administrator approves it
    APPROVED = "approved"
    REJECTED = "rejected"
    DISABLED = "disabled"


class MerchantLevel(StrEnum):
    """How far the operator has verified a merchant. Each level has separate limits."""

    UNVERIFIED = "unverified"
    VERIFIED = "verified"


class CommissionBearer(StrEnum):
    CUSTOMER = "customer"
    MERCHANT = "merchant"


class OverpaidRule(StrEnum):
    """What happens to a bank transfer above the amount due."""

    SETTLE = "settle"  # credit the amount due, and refund the surplus to the customer
    HOLD = "hold"  # hold all money until an administrator decides


class UnderpaidRule(StrEnum):
    """What happens to a bank transfer below the amount due."""

    # Checkout asks for the rest until the link expires. Then the received money is refunded.
    ASK = "ask"
    HOLD = "hold"  # hold all money until an administrator decides


# The rules for new merchants. Merchants created before the rules existed keep the default, `hold`.
NEW_RULES = queries.WrongAmountRules(OverpaidRule.SETTLE, UnderpaidRule.ASK)


class MerchantNotFound(Refusal):
    status, code = 404, "MERCHANT_NOT_FOUND"
    message = "There is no such merchant."


class BadMerchant(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The merchant's data is not valid."


class DecidedMeanwhile(Refusal):
    status, code = 409, "DECIDED_MEANWHILE"
    message = "Somebody else has changed this merchant's status in the meantime."


class NoNumbersLeft(Refusal):
    status, code = 409, "NO_MERCHANT_NUMBERS_LEFT"
    message = "All merchant numbers of this cell are used. Create the merchant in another cell."


class NewMerchant(msgspec.Struct, frozen=True):
    """A new merchant with its keys and secrets, which are shown only once."""

    id: int
    name: str
    status: MerchantStatus
    sandbox: NewCredentials
    production: NewCredentials


class MerchantUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator's changes to a merchant. Fields that are None stay the same."""

    status: MerchantStatus | None = None
    status_reason: str | None = None  # the reason for the status, which the merchant sees
    # The expected current status. The change is rejected if the status differs.
    status_was: MerchantStatus | None = None
    commission_percent: Decimal | None = None
    commission_bearer: CommissionBearer | None = None
    gateways: Sequence[str] | None = None  # an empty list means all available gateways
    payouts_enabled: bool | None = None
    kyc_verified: bool | None = None
    phone_verified: bool | None = None
    sends_receipts: bool | None = None
    level: MerchantLevel | None = None
    overpaid: OverpaidRule | None = None
    underpaid: UnderpaidRule | None = None
    bvn: str | None = None
    currencies: Sequence[str] | None = None


async def create(
    db: Database | Connection,
    keyring: Keyring,
    *,
    name: str,
    email: str,
    status: MerchantStatus = MerchantStatus.PENDING,
    currencies: Sequence[str] = ("NGN",),
    sandbox: NewCredentials | None = None,
    production: NewCredentials | None = None,
    parent_id: int | None = None,
) -> NewMerchant:
    """Creates the merchant with credentials, wallets and sandbox balance in one transaction.

    A merchant with a parent is a sub-account, which gets the parent's team.
    """
    name, email = name.strip(), email.strip()
    _check_name(name, email)
    currencies = _checked_currencies(currencies)
    given = {Environment.SANDBOX: sandbox, Environment.PRODUCTION: production}
    async with transaction_of(db) as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        if not await queries.has_numbers_left(connection):
            raise NoNumbersLeft
        merchant_id = await queries.insert_merchant(
            connection,
            name=name,
            email=email,
            status=status,
            currencies=currencies,
            rules=NEW_RULES,
            version=version,
        )
        keys = {
            environment: own or credentials.generate(environment, merchant_id)
            for environment, own in given.items()
        }
        for environment, new in keys.items():
            await queries.insert_merchant_key(
                connection, merchant_id, environment, new.merchant_key
            )
            await credentials.insert(connection, keyring, new, merchant_id, environment, 1)
        await wallets.open_all(connection, merchant_id, currencies)
        if parent_id is not None:
            await queries.set_parent(connection, merchant_id, parent_id)
        await audit.record(
            connection,
            "merchant.create",
            f"merchant:{merchant_id}",
            merchant_id=merchant_id,
            name=name,
            email=email,
            status=status,
            currencies=currencies,
        )
    return NewMerchant(
        merchant_id, name, status, keys[Environment.SANDBOX], keys[Environment.PRODUCTION]
    )


async def change(
    db: Database | Connection, keyring: Keyring, merchant_id: int, wanted: MerchantUpdate
) -> MerchantRow:
    check_change(wanted)
    bvn_sealed = None
    if wanted.bvn is not None:
        bvn_sealed = keyring.seal(wanted.bvn.encode(), bvn_context(merchant_id))
    async with transaction_of(db) as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        before = await _locked(connection, merchant_id)
        after = _apply(wanted, before)
        await queries.update_merchant(connection, after, bvn_sealed=bvn_sealed, version=version)
        await wallets.open_all(connection, merchant_id, after.currencies)
        await _record_change(connection, wanted, before, after)
        await notices.report_decision(connection, before, after)
        if _may_pay_out(after) and not _may_pay_out(before):
            await jobs.wake(connection, merchant_id, outgoing.JOB_KINDS)
    return await get(db, merchant_id)


async def switch_currency(
    db: Database, merchant_id: int, currency: str, *, is_on: bool
) -> MerchantRow:
    """Enables or disables a currency. The wallets of a disabled currency keep their balance."""
    [code] = _checked_currencies([currency])
    async with db.transaction() as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        before = await _locked(connection, merchant_id)
        others = [each for each in before.currencies if each != code]
        codes = _checked_currencies([*others, code] if is_on else others)
        if (code in before.currencies) != is_on:
            after = msgspec.structs.replace(before, currencies=codes)
            await queries.update_merchant(connection, after, bvn_sealed=None, version=version)
            await wallets.open_all(connection, merchant_id, codes)
            await _record_change(connection, MerchantUpdate(), before, after)
    return await get(db, merchant_id)


async def _record_change(
    connection: Connection, wanted: MerchantUpdate, before: MerchantRow, after: MerchantRow
) -> None:
    changed = audit.difference(msgspec.structs.asdict(before), msgspec.structs.asdict(after))
    if wanted.bvn is not None:
        changed["bvn"] = {"before": "set" if before.has_bvn else None, "after": "set"}
    if changed:
        await audit.record(
            connection,
            "merchant.change",
            f"merchant:{after.id}",
            merchant_id=after.id,
            changed=changed,
        )


async def rotate(
    db: Database,
    keyring: Keyring,
    merchant_id: int,
    environment: Environment,
    *,
    overlap_minutes: int = 0,
) -> NewCredentials:
    """Creates a new API key and secret. The old key and secret stay valid for the overlap."""
    if not 0 <= overlap_minutes <= 60 * 24 * 30:
        raise BadMerchant("The overlap must be between 0 minutes and 30 days.")
    async with db.transaction() as connection:
        await touch(connection, merchant_id)
        generation = 1 + await credentials.expire(
            connection, merchant_id, environment, overlap_minutes
        )
        merchant_key = await queries.merchant_key(connection, merchant_id, environment)
        new = credentials.generate(environment, merchant_id, merchant_key)
        await credentials.insert(connection, keyring, new, merchant_id, environment, generation)
        await audit.record(
            connection,
            "merchant.rotate",
            f"merchant:{merchant_id}",
            merchant_id=merchant_id,
            environment=environment,
            generation=generation,
            overlap_minutes=overlap_minutes,
        )
        await notices.report_rotation(connection, merchant_id, environment)
    return new


async def get(db: Database | Connection, merchant_id: int) -> MerchantRow:
    found = await queries.merchant(db, merchant_id)
    if found is None:
        raise MerchantNotFound(f"There is no merchant {merchant_id}.")
    return found


async def _locked(connection: Connection, merchant_id: int) -> MerchantRow:
    found = await connection.row(
        MerchantRow, MERCHANT + " WHERE id = $1 FOR NO KEY UPDATE", merchant_id
    )
    if found is None:
        raise MerchantNotFound(f"There is no merchant {merchant_id}.")
    return found


async def touch(connection: Connection, merchant_id: int) -> None:
    """Locks the merchant's row, and makes all processes reload the merchant."""
    version = await changes.announce(connection, changes.MERCHANTS)
    if not await queries.touch_merchant(connection, merchant_id, version):
        raise MerchantNotFound(f"There is no merchant {merchant_id}.")


async def lock_accounts(connection: Connection, merchant_id: int, *, is_locked: bool) -> None:
    """Restricts payouts to the merchant's saved accounts, or ends the restriction."""
    await touch(connection, merchant_id)
    await connection.execute(
        "UPDATE merchant SET accounts_locked = $2 WHERE id = $1", merchant_id, is_locked
    )


async def read_bvn(db: Database, keyring: Keyring, merchant_id: int) -> str | None:
    """Returns the owner's decrypted BVN, for the only provider call that needs it."""
    sealed: bytes | None = await db.value(
        "SELECT bvn_sealed FROM merchant WHERE id = $1", merchant_id
    )
    return None if sealed is None else keyring.open(sealed, bvn_context(merchant_id)).decode()


def bvn_context(merchant_id: int) -> str:
    return f"merchant:{merchant_id}:bvn"


SEALED_BVN = SealedColumn("merchant", "bvn_sealed", ("id",), lambda row: bvn_context(row["id"]))


def _apply(wanted: MerchantUpdate, before: MerchantRow) -> MerchantRow:
    if wanted.status_was is not None and wanted.status_was != before.status:
        raise DecidedMeanwhile(f"The merchant is now {before.status}. Review the merchant again.")
    changed = {
        name: value for name in UNCHECKED_FIELDS if (value := getattr(wanted, name)) is not None
    }
    if wanted.status is not None:
        changed["status_reason"] = wanted.status_reason
    if wanted.gateways is not None:
        changed["gateways"] = list(wanted.gateways) or None
    if wanted.currencies is not None:
        changed["currencies"] = _checked_currencies(wanted.currencies)
    return msgspec.structs.replace(before, **changed)


def _may_pay_out(row: MerchantRow) -> bool:
    return row.status == MerchantStatus.APPROVED and row.payouts_enabled


def check_change(wanted: MerchantUpdate) -> None:
    percent = wanted.commission_percent
    if percent is not None:
        if not percent.is_finite() or not 0 <= percent <= 100:
            raise BadMerchant("The commission must be between 0 and 100 percent.")
        if percent != round(percent, 4):
            raise BadMerchant("The commission can have at most 4 decimals.")
    reason = wanted.status_reason
    if reason is not None and not (len(reason) <= REASON_LENGTH_MAX and reason.isprintable()):
        raise BadMerchant(f"A reason has up to {REASON_LENGTH_MAX} printable characters.")
    if wanted.bvn is not None and not (
        len(wanted.bvn) == BVN_DIGITS and wanted.bvn.isascii() and wanted.bvn.isdigit()
    ):
        raise BadMerchant("A BVN has 11 digits.")


def _check_name(name: str, email: str) -> None:
    if not is_line(name, NAME_LENGTH_MAX):
        raise BadMerchant(f"A merchant's name has 1 to {NAME_LENGTH_MAX} printable characters.")
    if not is_email(email) or len(email) > EMAIL_LENGTH_MAX:
        raise BadMerchant(f"{email!r} is not an email address.")


def _checked_currencies(codes: Sequence[str]) -> list[str]:
    unique = list(dict.fromkeys(code.upper() for code in codes))
    if not unique:
        raise BadMerchant("A merchant needs at least one currency.")
    for code in unique:
        if code not in money.DECIMALS:
            raise BadMerchant(f"{code!r} is not an ISO 4217 currency.")
    return unique
