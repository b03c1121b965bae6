"""Creates and changes customers."""

from collections.abc import Sequence

import msgspec

from manilla.customers import store
from manilla.customers.customer import (
    CUSTOMER_IDS,
    CustomerDisabled,
    CustomerErased,
    CustomerExists,
    CustomerRow,
    CustomerTerms,
    PersonalNumbers,
    context,
)
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.ledger.idempotency import Remember, without_key
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound
from manilla.payments import store as payments


class PaymentOfOther(Refusal):
    code = "payment_of_other_customer"
    message = "The payment belongs to another customer."


_Sealed = tuple[bytes | None, bytes | None]


async def create(
    db: Database,
    keyring: Keyring,
    tenant: Tenant,
    reference: str,
    terms: CustomerTerms,
    numbers: PersonalNumbers,
    remember: Remember = without_key,
) -> CustomerRow:
    """Creates a customer. A repeated request with the same data returns the first customer."""
    customer_id = CUSTOMER_IDS.new(tenant.merchant_id)
    sealed = _seal(keyring, tenant.merchant_id, customer_id, numbers)
    async with db.transaction() as connection:
        found = await store.insert(connection, tenant, customer_id, reference, terms, *sealed)
        if found is None:
            # The rows of this table are never deleted, so the reference's customer still exists.
            found = await store.of_tenant(connection, tenant, reference)
            if found.terms != terms or found.personal_numbers(keyring) != numbers:
                raise CustomerExists
        await remember(connection, found)
    return found


async def update(
    db: Database,
    keyring: Keyring,
    tenant: Tenant,
    reference: str,
    changes: dict[str, str | None],
) -> CustomerRow:
    """Changes the given fields of `CustomerTerms` and `PersonalNumbers`. None removes a value."""
    async with db.transaction() as connection:
        before = await store.of_tenant(connection, tenant, reference, lock=True)
        if before.erased_at is not None:
            raise CustomerErased
        terms = msgspec.structs.replace(before.terms, **_part(changes, CustomerTerms))
        numbers = PersonalNumbers(**_part(changes, PersonalNumbers))
        sealed = _seal(keyring, tenant.merchant_id, before.id, numbers)
        kept = (before.bvn_sealed, before.nin_sealed)
        written = [
            new if name in changes else old
            for name, new, old in zip(PersonalNumbers.__struct_fields__, sealed, kept, strict=True)
        ]
        return await store.update(connection, before, terms, *written)


async def set_disabled(
    db: Database,
    tenant: Tenant,
    reference: str,
    *,
    is_disabled: bool,
    remember: Remember = without_key,
) -> CustomerRow:
    """Disables or enables a customer. Transfers to a disabled customer's accounts are held."""
    async with db.transaction() as connection:
        before = await store.of_tenant(connection, tenant, reference, lock=True)
        if before.erased_at is not None and not is_disabled:
            raise CustomerErased
        changed = await store.set_disabled(connection, before, is_disabled=is_disabled)
        await remember(connection, changed)
    return changed


async def attach(
    db: Database,
    tenant: Tenant,
    reference: str,
    trx_ids: Sequence[str],
    remember: Remember = without_key,
) -> int:
    """Attaches existing payments, and returns how many were not attached before."""
    attached = 0
    async with db.transaction() as connection:
        customer = await store.of_tenant(connection, tenant, reference, lock=True)
        if customer.disabled_at is not None:
            raise CustomerDisabled
        for trx_id in sorted(set(trx_ids)):
            payment = await payments.payment(connection, tenant.merchant_id, trx_id, lock=True)
            if payment is None or payment.environment is not tenant.environment:
                raise TransactionNotFound(f"There is no payment {trx_id}.")
            if payment.customer_reference not in (None, reference):
                raise PaymentOfOther(f"The payment {trx_id} belongs to another customer.")
            if payment.customer_reference is None:
                await payments.set_customer(connection, payment, reference)
                attached += 1
        await remember(connection, attached)
    return attached


def _part(changes: dict[str, str | None], kind: type[msgspec.Struct]) -> dict[str, str | None]:
    return {name: changes[name] for name in kind.__struct_fields__ if name in changes}


def _seal(
    keyring: Keyring, merchant_id: int, customer_id: str, numbers: PersonalNumbers
) -> _Sealed:
    def sealed(name: str, value: str | None) -> bytes | None:
        if value is None:
            return None
        return keyring.seal(value.encode(), context(merchant_id, customer_id, name))

    return sealed("bvn", numbers.bvn), sealed("nin", numbers.nin)
