"""initiate-payout as a typical team writes it: check, lock the wallet, check, insert, commit."""

import time
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from baseline import limit, settings
from baseline.authenticate import Caller, Session
from baseline.ledger import _entry
from baseline.models import Job, Merchant, Method, Payout, Posting, Timeline, Wallet
from baseline.payments import _minor, _percent
from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, Field, HttpUrl, PlainSerializer
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import contains_eager

# Some of the sandbox's bank codes. Manilla's list is longer.
BANK_CODES = {"044", "023", "050", "070", "011", "214", "058", "030", "301", "082", "221", "232"}
INVALID_ACCOUNT, POOR_PROVIDER_ACCOUNT = "0000000002", "0000000004"
SANDBOX_NAME = "SANDBOX BENEFICIARY"

router = APIRouter()

Amount = Annotated[Decimal, PlainSerializer(float, return_type=float, when_used="json")]


class Beneficiary(BaseModel):
    bank_code: str = Field(min_length=1, max_length=200)
    account_number: str = Field(pattern="^[0-9]{10}$")
    account_name: str | None = Field(default=None, max_length=200)


class PayoutRequest(BaseModel):
    payout_amount: Decimal = Field(gt=0, max_digits=17, decimal_places=2)
    currency_code: str = Field(pattern="^[A-Za-z]{3}$")
    ref_trx: str = Field(min_length=1, max_length=60)
    ipn_url: HttpUrl
    withdraw_method_id: int
    beneficiary: Beneficiary
    description: str | None = Field(default=None, max_length=255)


class PayoutInfo(BaseModel):
    merchant_id: int
    merchant_name: str
    ref_trx: str
    ipn_url: str
    environment: str
    is_sandbox: bool
    api_merchant_payout: bool
    withdraw_method_id: int
    withdraw_method: str
    trx_id: str
    payout_amount: Amount
    currency_code: str
    fee: Amount
    net_amount: Amount
    payable_amount: Amount
    status: str
    processing_type: str


class Initiated(BaseModel):
    trx_id: str
    status: str
    info: PayoutInfo


@router.post("/api/v1/initiate-payout")
async def initiate(
    request: Request, response: Response, order: PayoutRequest, caller: Caller, db: Session
) -> Initiated:
    current = await settings.load(db)
    await limit.take(db, request, response, caller, int(current["rate_limit_per_minute"]))
    response.headers["cache-control"] = "no-store"
    merchant, environment = caller.merchant, caller.environment
    method = await _open_method(db, merchant, order)
    fee = Decimal(method.fee_fixed_minor) / 100 + _percent(order.payout_amount, method.fee_percent)
    account_name = _resolve(order.beneficiary)
    payout = _payout(order, merchant, environment, method, _minor(fee), account_name)
    wallet = await _locked_wallet(db, merchant, environment, order.currency_code)
    await _debit(db, wallet, payout)
    db.add(payout)
    db.add(_accepted(payout))
    db.add(_job(payout, int(current["sandbox_complete_seconds"])))
    try:
        await db.commit()
    except IntegrityError:
        # The unique index detects a used reference, which saves a query.
        raise HTTPException(400, "This ref_trx was used before.") from None
    return _answer(order, merchant, method, payout, fee)


async def _open_method(db: AsyncSession, merchant: Merchant, order: PayoutRequest) -> Method:
    method = await db.scalar(
        select(Method)
        .join(Method.provider)
        .options(contains_eager(Method.provider))
        .where(Method.kind == "withdraw", Method.id == order.withdraw_method_id)
    )
    if method is None or not method.active:
        raise HTTPException(400, "There is no such payout method.")
    if not method.provider.pay_out_enabled:
        raise HTTPException(400, "The provider is not configured.")
    if not merchant.payouts_enabled:
        raise HTTPException(400, "Withdrawals are switched off.")
    if order.currency_code not in merchant.currencies:
        raise HTTPException(400, "Currency is not enabled for this merchant.")
    if method.currency != order.currency_code:
        raise HTTPException(400, "This method pays out in another currency.")
    minor = _minor(order.payout_amount)
    if minor < method.min_minor or (method.max_minor is not None and minor > method.max_minor):
        raise HTTPException(400, "payout_amount is out of the method's bounds.")
    return method


def _resolve(beneficiary: Beneficiary) -> str:
    if beneficiary.bank_code not in BANK_CODES:
        raise HTTPException(400, "This is not a bank code of the provider.")
    if beneficiary.account_number == INVALID_ACCOUNT:
        raise HTTPException(400, "The account could not be verified.")
    if beneficiary.account_number == POOR_PROVIDER_ACCOUNT:
        raise HTTPException(400, "The provider's wallet cannot cover this payout.")
    return SANDBOX_NAME


async def _locked_wallet(
    db: AsyncSession, merchant: Merchant, environment: str, currency: str
) -> Wallet:
    wallet = await db.scalar(
        select(Wallet)
        .where(
            Wallet.merchant_id == merchant.id,
            Wallet.environment == environment,
            Wallet.currency == currency,
        )
        .with_for_update()
    )
    if wallet is None or wallet.status != "active":
        raise HTTPException(400, "There is no active wallet in this currency.")
    return wallet


async def _debit(db: AsyncSession, wallet: Wallet, payout: Payout) -> None:
    payable_minor = payout.amount_minor + payout.fee_minor
    if wallet.balance_minor < payable_minor:
        raise HTTPException(400, "The wallet cannot cover payout_amount and the fee.")
    wallet.balance_minor -= payable_minor
    posting = Posting(
        merchant_id=payout.merchant_id,
        environment=payout.environment,
        currency=payout.currency,
        kind="payout",
        trx_id=payout.trx_id,
    )
    db.add(posting)
    await db.flush()
    db.add_all(
        [
            _entry(posting, 1, "wallet", -payable_minor, wallet.balance_minor),
            _entry(posting, 2, "in_flight", payout.amount_minor),
            _entry(posting, 3, "payout_fee", payout.fee_minor),
        ]
    )


def _payout(
    order: PayoutRequest,
    merchant: Merchant,
    environment: str,
    method: Method,
    fee_minor: int,
    account_name: str,
) -> Payout:
    return Payout(
        merchant_id=merchant.id,
        # Ids are ordered by time, as in Manilla, because that makes index inserts faster.
        trx_id=f"TXN{time.time_ns()}{uuid.uuid4().hex[:12]}",
        environment=environment,
        ref_trx=order.ref_trx,
        status="pending",
        currency=order.currency_code,
        amount_minor=_minor(order.payout_amount),
        fee_minor=fee_minor,
        method_id=method.id,
        method_code=method.code,
        method_name=method.name,
        provider_code=method.provider_code,
        beneficiary=order.beneficiary.model_dump(exclude_none=True),
        account_name=account_name,
        description=order.description,
        ipn_url=str(order.ipn_url),
        remarks="SANDBOX_TRANSACTION" if environment == "sandbox" else None,
    )


def _accepted(payout: Payout) -> Timeline:
    beneficiary = payout.beneficiary
    return Timeline(
        merchant_id=payout.merchant_id,
        trx_id=payout.trx_id,
        number=1,
        event="accepted",
        from_status="pending",
        to_status="pending",
        detail=f"To {payout.account_name}, bank {beneficiary['bank_code']}, "
        f"account …{beneficiary['account_number'][-4:]}.",
    )


def _job(payout: Payout, sandbox_seconds: int) -> Job:
    is_sandbox = payout.environment == "sandbox"
    return Job(
        merchant_id=payout.merchant_id,
        kind="payout.sandbox" if is_sandbox else "transfer",
        subject=payout.trx_id,
        due_at=datetime.now(UTC) + timedelta(seconds=sandbox_seconds if is_sandbox else 0),
    )


def _answer(
    order: PayoutRequest, merchant: Merchant, method: Method, payout: Payout, fee: Decimal
) -> Initiated:
    return Initiated(
        trx_id=payout.trx_id,
        status=payout.status,
        info=PayoutInfo(
            merchant_id=merchant.id,
            merchant_name=merchant.name,
            ref_trx=order.ref_trx,
            ipn_url=str(order.ipn_url),
            environment=payout.environment,
            is_sandbox=payout.environment == "sandbox",
            api_merchant_payout=True,
            withdraw_method_id=method.id,
            withdraw_method=method.name,
            trx_id=payout.trx_id,
            payout_amount=order.payout_amount,
            currency_code=order.currency_code,
            fee=fee,
            net_amount=order.payout_amount,
            payable_amount=order.payout_amount + fee,
            status=payout.status,
            processing_type="auto",
        ),
    )
