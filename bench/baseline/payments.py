"""initiate-payment as a typical team writes it: check, check, insert, insert, commit."""

import hashlib
import hmac
import os
import time
import uuid
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated

from baseline import limit, settings
from baseline.authenticate import Caller, Session
from baseline.models import Job, Merchant, Method, Payment, Provider, Wallet
from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, HttpUrl, PlainSerializer
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager

BASE_URL = "http://127.0.0.1"
LINK_KEY = os.urandom(32)
MINOR_PER_MAJOR = 100  # the baseline supports only currencies with two decimals

router = APIRouter()


def _split(given: str | list[str]) -> list[str]:
    words = given.split(",") if isinstance(given, str) else given
    return [word.strip() for word in words if word.strip()]


Amount = Annotated[Decimal, PlainSerializer(float, return_type=float, when_used="json")]


class PaymentRequest(BaseModel):
    payment_amount: Decimal = Field(ge=1, max_digits=17, decimal_places=2)
    currency_code: str = Field(pattern="^[A-Za-z]{3}$")
    ref_trx: str = Field(min_length=1, max_length=60)
    ipn_url: HttpUrl
    success_redirect: HttpUrl
    cancel_redirect: HttpUrl
    description: str | None = None
    customer_name: str | None = Field(default=None, max_length=100)
    customer_email: str | None = Field(
        default=None, max_length=100, pattern=r"^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$"
    )
    allow_payment_methods: Annotated[list[str], BeforeValidator(_split)] = []


class SessionInfo(BaseModel):
    ref_trx: str
    description: str | None
    ipn_url: str
    cancel_redirect: str
    success_redirect: str
    customer_name: str | None
    customer_email: str | None
    merchant_id: int
    merchant_name: str
    amount: Amount
    currency_code: str
    environment: str
    is_sandbox: bool
    allow_payment_methods: list[str]
    merchant_payment_methods_restricted: bool
    merchant_payment_method_ids: list[int]
    merchant_payment_method_codes: list[str]
    base_amount: Amount
    api_fee_bearer: str
    commission_bearer: str
    api_fee_percent: Amount
    api_commission_fee: Amount
    commission_fee: Amount
    customer_pays: Amount
    merchant_receives: Amount


class CheckoutSession(BaseModel):
    payment_url: str
    info: SessionInfo


@router.post("/api/v1/initiate-payment")
async def initiate(
    request: Request, response: Response, order: PaymentRequest, caller: Caller, db: Session
) -> CheckoutSession:
    current = await settings.load(db)
    await limit.take(db, request, response, caller, int(current["rate_limit_per_minute"]))
    response.headers["cache-control"] = "no-store"
    merchant, environment = caller.merchant, caller.environment
    wallet = await _usable_wallet(db, merchant, environment, order.currency_code)
    fee = _percent(order.payment_amount, merchant.commission_percent)
    customer_pays = order.payment_amount
    if merchant.commission_bearer == "customer":
        customer_pays += fee
    elif environment == "production" and wallet.balance_minor < _minor(fee):
        raise HTTPException(400, "Insufficient merchant balance to cover the API commission fee.")
    methods = await _eligible_methods(db, merchant, order, customer_pays)
    payment = _payment(order, merchant, environment, fee, int(current["checkout_minutes"]))
    db.add(payment)
    db.add(_job(payment, int(current["sandbox_complete_seconds"])))
    try:
        await db.commit()
    except IntegrityError:
        # The unique index detects a used reference, which saves a query.
        raise HTTPException(400, "This ref_trx was used before.") from None
    return CheckoutSession(
        payment_url=_signed_url(payment),
        info=_info(order, merchant, environment, methods, fee, customer_pays),
    )


async def _usable_wallet(
    db: AsyncSession, merchant: Merchant, environment: str, currency: str
) -> Wallet:
    if currency not in merchant.currencies:
        raise HTTPException(400, "Currency is not enabled for this merchant.")
    wallet = await db.get(Wallet, (merchant.id, environment, currency))
    if wallet is None or wallet.status != "active":
        raise HTTPException(400, "Receiver wallet for this currency is not available.")
    return wallet


async def _eligible_methods(
    db: AsyncSession, merchant: Merchant, order: PaymentRequest, customer_pays: Decimal
) -> list[Method]:
    offered = await db.scalars(
        select(Method)
        .join(Method.provider)
        .options(contains_eager(Method.provider))
        .where(
            Method.kind == "deposit",
            Method.active,
            Method.currency == order.currency_code,
            Provider.pay_in_enabled,
        )
        .order_by(Method.position, Method.id)
    )
    minor = _minor(customer_pays)
    return [
        method
        for method in offered
        if method.min_minor <= minor
        and (method.max_minor is None or minor <= method.max_minor)
        and (merchant.gateways is None or method.code in merchant.gateways)
        and _has_bvn_if_needed(merchant, method)
        and _matches(method, order.allow_payment_methods)
    ]


def _has_bvn_if_needed(merchant: Merchant, method: Method) -> bool:
    if method.provider_code != "providera" or method.flow != "virtual_account":
        return True
    return merchant.has_bvn or method.provider.is_sandbox


def _matches(method: Method, keywords: list[str]) -> bool:
    name, code = method.name.lower(), method.code.lower()
    return not keywords or any(word.lower() in name or word.lower() in code for word in keywords)


def _payment(
    order: PaymentRequest, merchant: Merchant, environment: str, fee: Decimal, minutes: int
) -> Payment:
    return Payment(
        merchant_id=merchant.id,
        # Ids are ordered by time, as in Manilla, because that makes index inserts faster.
        trx_id=f"TXN{time.time_ns()}{uuid.uuid4().hex[:12]}",
        environment=environment,
        ref_trx=order.ref_trx,
        currency=order.currency_code,
        amount_minor=_minor(order.payment_amount),
        commission_minor=_minor(fee),
        commission_bearer=merchant.commission_bearer,
        description=order.description,
        customer_name=order.customer_name,
        customer_email=order.customer_email,
        ipn_url=str(order.ipn_url),
        success_redirect=str(order.success_redirect),
        cancel_redirect=str(order.cancel_redirect),
        allow_payment_methods=order.allow_payment_methods,
        remarks="SANDBOX_TRANSACTION" if environment == "sandbox" else None,
        expires_at=datetime.now(UTC) + timedelta(minutes=minutes),
    )


def _job(payment: Payment, sandbox_seconds: int) -> Job:
    is_sandbox = payment.environment == "sandbox"
    return Job(
        merchant_id=payment.merchant_id,
        kind="payment.sandbox" if is_sandbox else "payment.expire",
        subject=payment.trx_id,
        due_at=datetime.now(UTC) + timedelta(seconds=sandbox_seconds)
        if is_sandbox
        else payment.expires_at,
    )


def _info(
    order: PaymentRequest,
    merchant: Merchant,
    environment: str,
    methods: list[Method],
    fee: Decimal,
    customer_pays: Decimal,
) -> SessionInfo:
    return SessionInfo(
        ref_trx=order.ref_trx,
        description=order.description,
        ipn_url=str(order.ipn_url),
        cancel_redirect=str(order.cancel_redirect),
        success_redirect=str(order.success_redirect),
        customer_name=order.customer_name,
        customer_email=order.customer_email,
        merchant_id=merchant.id,
        merchant_name=merchant.name,
        amount=order.payment_amount,
        currency_code=order.currency_code,
        environment=environment,
        is_sandbox=environment == "sandbox",
        allow_payment_methods=order.allow_payment_methods,
        merchant_payment_methods_restricted=merchant.gateways is not None,
        merchant_payment_method_ids=[method.id for method in methods],
        merchant_payment_method_codes=[method.code for method in methods],
        base_amount=order.payment_amount,
        api_fee_bearer=merchant.commission_bearer,
        commission_bearer=merchant.commission_bearer,
        api_fee_percent=merchant.commission_percent,
        api_commission_fee=fee,
        commission_fee=fee,
        customer_pays=customer_pays,
        merchant_receives=order.payment_amount,
    )


def _signed_url(payment: Payment) -> str:
    expires = int(payment.expires_at.timestamp())
    text = f"{payment.trx_id}.{expires}".encode()
    signature = hmac.new(LINK_KEY, text, hashlib.sha256).hexdigest()
    return f"{BASE_URL}/checkout/{payment.trx_id}?expires={expires}&signature={signature}"


def _percent(amount: Decimal, percent: Decimal) -> Decimal:
    return (amount * percent / 100).quantize(Decimal("0.01"), ROUND_HALF_UP)


def _minor(amount: Decimal) -> int:
    return int(amount * MINOR_PER_MAJOR)
