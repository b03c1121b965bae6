"""What merchants do with splits: rules, partners, sub-accounts, and the release of held shares."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus
from manilla.splits import movements, planning, store
from manilla.splits.rule import SUB_ACCOUNT, SplitInvalid, SplitTerms
from manilla.splits.share import DividedPayment, Share
from manilla.splits.store import StoredRule, SubAccount

NO_CHANGES: Mapping[str, Any] = {}


class RuleNotFound(TransactionNotFound):
    message = "There is no such split."


class PartnerNotFound(Refusal):
    status, code = 404, "PARTNER_NOT_FOUND"
    message = "There is no such invitation."


async def create(
    db: Database,
    tenant: Tenant,
    name: str,
    terms: SplitTerms,
    *,
    is_default: bool,
    remember: Remember = without_key,
) -> StoredRule:
    async with db.transaction() as connection:
        await planning.check_receivers(connection, tenant, terms)
        new = store.new_rule(tenant, name, terms, is_default=is_default)
        await _write(connection, "split.create", new)
        await remember(connection, new)
    return new


async def get(db: Database | Connection, tenant: Tenant, rule_id: str) -> StoredRule:
    found = await store.rule(db, tenant, rule_id)
    if found is None:
        raise RuleNotFound
    return found


async def edit(
    db: Database,
    tenant: Tenant,
    rule_id: str,
    *,
    name: str | None = None,
    terms: Mapping[str, Any] = NO_CHANGES,
    is_default: bool | None = None,
    is_disabled: bool = False,
    remember: Remember = without_key,
) -> StoredRule:
    """Writes the rule's next version, with the changed terms.

    Payments that were created before keep their version.
    """
    async with db.transaction() as connection:
        await merchants.touch(connection, tenant.merchant_id)  # also: one change at a time
        before = await get(connection, tenant, rule_id)
        if before.status != "active":
            raise SplitInvalid.at("split", f"The split {rule_id} is disabled.")
        changed = msgspec.structs.replace(before.decoded, **terms)
        if not is_disabled:
            await planning.check_receivers(connection, tenant, changed)
        default = before.is_default if is_default is None else is_default
        after = msgspec.structs.replace(
            before,
            version=before.version + 1,
            name=name or before.name,
            terms=msgspec.json.encode(changed).decode(),
            is_default=default and not is_disabled,
            status="disabled" if is_disabled else "active",
        )
        await _write(connection, "split.disable" if is_disabled else "split.edit", after)
        await remember(connection, after)
    return after


async def _write(connection: Connection, action: str, new: StoredRule) -> None:
    await merchants.touch(connection, new.merchant_id)
    await store.write_rule(connection, new)
    await audit.record(
        connection,
        action,
        f"split:{new.id}",
        merchant_id=new.merchant_id,
        version=new.version,
        is_default=new.is_default,
        terms=msgspec.json.decode(new.terms),
    )


async def release(
    db: Database,
    tenant: Tenant,
    payment_trx_id: str,
    receiver: str | None,
    remember: Remember = without_key,
) -> list[Share]:
    """Releases the held shares of a payment, or of one receiver. Repeated calls have no effect."""
    async with db.transaction() as connection:
        is_own = trx_ids.merchant_of(payment_trx_id) == tenant.merchant_id
        key = tenant.merchant_id, payment_trx_id
        payment = await store.payment(connection, *key) if is_own else None
        if payment is None or payment.environment is not tenant.environment:
            raise TransactionNotFound("There is no such payment with a split.")
        shares = await store.lock(connection, payment)
        await movements.release(connection, payment, _of_receiver(payment, shares, receiver))
        shares = await store.shares_of(connection, tenant.merchant_id, payment_trx_id)
        await remember(connection, shares)
    return shares


def _of_receiver(
    payment: DividedPayment, shares: Sequence[Share], receiver: str | None
) -> Sequence[Share]:
    if receiver is None:
        return shares
    ids = {each.trx_id for each in payment.division.shares if each.receiver == receiver}
    if not ids:
        raise SplitInvalid.at("receiver", "This receiver has no share of the payment.")
    return [each for each in shares if each.trx_id in ids]


async def invite(
    db: Database, owner_id: int, receiver_id: int, *, is_accepted: bool = False
) -> None:
    """Invites a merchant to receive shares. Only the operator links merchants without asking."""
    async with db.transaction() as connection:
        receiver = await merchants.get(connection, receiver_id)
        is_own = receiver_id == owner_id or receiver.status == MerchantStatus.REJECTED
        if is_own or not await store.add_partner(connection, receiver_id, owner_id):
            raise PartnerNotFound("This merchant was invited before, or cannot be invited.")
        if is_accepted:
            await store.set_partner(connection, receiver_id, owner_id, "accepted", "invited")
        await _record(connection, "split.invite", owner_id, receiver_id, is_accepted=is_accepted)


async def answer(db: Database, receiver_id: int, owner_id: int, *, accepts: bool) -> None:
    """Accepts an invitation, or ends the consent. Shares of paid payments stay as they are."""
    before = ("invited",) if accepts else ("invited", "accepted")
    status = "accepted" if accepts else "ended"
    async with db.transaction() as connection:
        if not await store.set_partner(connection, receiver_id, owner_id, status, *before):
            raise PartnerNotFound
        await _record(connection, f"split.{status}", owner_id, receiver_id)


async def _record(
    connection: Connection, action: str, owner_id: int, receiver_id: int, **detail: bool
) -> None:
    subject = f"merchant:{receiver_id}"
    await audit.record(connection, action, subject, merchant_id=owner_id, **detail)


async def create_sub_account(
    db: Database, keyring: Keyring, owner_id: int, name: str, remember: Remember = without_key
) -> SubAccount:
    """Creates a merchant that belongs to the owner, whose team manages it."""
    async with db.transaction() as connection:
        owner = await merchants.get(connection, owner_id)
        if await store.is_sub_account(connection, owner_id):
            raise SplitInvalid.at("name", "A sub-account cannot have sub-accounts.")
        new = await merchants.create(
            connection,
            keyring,
            name=name,
            email=owner.email,
            status=MerchantStatus(owner.status),
            currencies=owner.currencies,
            parent_id=owner_id,
        )
        made = SubAccount(new.id, new.name, new.status)
        await remember(connection, made)
    return made


def sub_account_id(merchant_id: int) -> str:
    return f"{SUB_ACCOUNT}{merchant_id}"
