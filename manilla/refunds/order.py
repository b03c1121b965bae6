"""Creates the refunds that merchants order through the API, once per reference."""

from decimal import Decimal
from typing import Any

import msgspec

from manilla.audit.actor import API, acting
from manilla.kit import strict_json
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.ledger import idempotency, trx_ids
from manilla.ledger.idempotency import RepeatKey
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import (
    DuplicateReference,
    KeyUsedBefore,
    Scenario,
    TransactionNotFound,
)
from manilla.merchants import api_keys
from manilla.merchants.directory import Caller
from manilla.payments import store as payments
from manilla.payments.payment import Payment
from manilla.refunds import fields, initiate, store
from manilla.refunds.refund import NO_REASON, Refund


class InvalidRefundAmount(Refusal):
    status, code = 400, "INVALID_AMOUNT"
    message = "The amount is not valid."


class OrderedRefund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund request whose format has been validated."""

    trx_id: str  # the payment's id
    ref_trx: str
    amount: Decimal | None = None  # None to refund the remaining amount
    reason: str | None = None
    scenario: Scenario | None = None
    repeat_key: RepeatKey | None = None
    api_key: int | None = None  # number of the additional API key that ordered the refund


class RefundInfo(msgspec.Struct, frozen=True):
    merchant_id: int
    merchant_name: str
    ref_trx: str
    environment: str
    is_sandbox: bool
    trx_id: str
    payment_trx_id: str
    amount: Decimal
    currency_code: str
    reason: str | None
    status: str


class InitiatedRefund(msgspec.Struct, frozen=True):
    trx_id: str
    status: str
    info: RefundInfo


async def place(db: Database, caller: Caller, order: OrderedRefund) -> InitiatedRefund:
    """Debits the wallet and adds the job that sends the refund, in one transaction.

    The API kernel has already responded to repeated requests, so a used idempotency key is an error
    here.
    """
    tenant = Tenant(caller.merchant_id, caller.environment)
    with acting(API):
        async with db.transaction() as connection:
            key = order.repeat_key
            if key is not None and await idempotency.is_used(connection, tenant, key):
                raise KeyUsedBefore
            payment = await _locked(connection, tenant, order.trx_id)
            await _check_reference(connection, tenant, order.ref_trx)
            refund = await _new(connection, payment, order)
            answer = _answer(caller, order, refund)
            if key is not None:
                stored = strict_json.encode(answer).decode()
                await idempotency.store_answer(connection, tenant, key, stored)
            if not await initiate.write(connection, payment, refund):
                await _check_reference(connection, tenant, order.ref_trx)
                raise AssertionError("a reference that nobody has cannot conflict")
            # The key can have been revoked while this transaction waited for the locks of the
            # payment and the wallet, which it holds now.
            if order.api_key is not None:
                await api_keys.check_active(connection, tenant, order.api_key)
    return answer


async def _locked(connection: Connection, tenant: Tenant, trx_id: str) -> Payment:
    if trx_ids.merchant_of(trx_id) != tenant.merchant_id:
        raise TransactionNotFound
    payment = await payments.payment(connection, tenant.merchant_id, trx_id, lock=True)
    if payment is None or payment.environment is not tenant.environment:
        raise TransactionNotFound
    return payment


async def _check_reference(connection: Connection, tenant: Tenant, ref_trx: str) -> None:
    first = await store.refund_by_reference(connection, tenant, ref_trx)
    if first is not None:
        details: dict[str, Any] = {"trx_id": first.trx_id, "status": fields.WORDS[first.status]}
        raise DuplicateReference(details=details)


async def _new(connection: Connection, payment: Payment, order: OrderedRefund) -> Refund:
    try:
        amount = None if order.amount is None else Money.of(order.amount, payment.currency)
    except MoneyError as error:
        raise InvalidRefundAmount.at("amount", str(error)) from None
    wanted = initiate.refundable(payment, amount)
    refund = await initiate.new_refund(
        connection, payment, wanted, (order.reason or "").strip() or NO_REASON
    )
    return msgspec.structs.replace(refund, ref_trx=order.ref_trx, scenario=order.scenario)


def _answer(caller: Caller, order: OrderedRefund, refund: Refund) -> InitiatedRefund:
    info = RefundInfo(
        merchant_id=caller.merchant_id,
        merchant_name=caller.name,
        ref_trx=order.ref_trx,
        environment=caller.environment,
        is_sandbox=caller.is_sandbox,
        trx_id=refund.trx_id,
        payment_trx_id=refund.payment_trx_id,
        amount=refund.amount.amount,
        currency_code=refund.currency,
        reason=order.reason,
        status=refund.status,
    )
    return InitiatedRefund(refund.trx_id, refund.status, info)
