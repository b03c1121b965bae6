"""Creates the baseline's tables and inserts the rows that it reads from standard input."""

import asyncio
import hashlib
import json
import sys
from decimal import Decimal

from baseline.database import engine, new_session
from baseline.models import Base, Credential, Merchant, Method, Provider, Setting, Wallet

SETTINGS = {
    "rate_limit_per_minute": "100000000",
    "checkout_minutes": "30",
    "sandbox_complete_seconds": "5",
    "site_name": "Baseline",
    "site_logo": "http://127.0.0.1/static/logo.svg",
    "site_url": "http://127.0.0.1",
    "gateway_name": "Baseline Payments",
    "gateway_description": "Payments and payouts for merchants, in naira first.",
}

# Each gateway has a code, a name, a provider and a flow, as in Manilla.
DEPOSIT_METHODS = [
    ("providera-ngn", "Provider A checkout", "providera", "hosted"),
    ("providera_ngn_va", "Provider A bank transfer", "providera", "virtual_account"),
    ("providerb-ngn", "Provider B checkout", "providerb", "hosted"),
    ("providerb_ngn_va", "Provider B bank transfer", "providerb", "virtual_account"),
    ("providerc-ngn", "Provider C checkout", "providerc", "hosted"),
]


async def seed(wanted: dict) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with new_session() as db, db.begin():
        db.add(_merchant(wanted))
        db.add_all(
            Provider(code=code, pay_in_enabled=True, is_sandbox=True)
            for code in ("providera", "providerb", "providerc")
        )
        await db.flush()
        db.add(_credential(wanted))
        db.add_all(_method(number, *fields) for number, fields in enumerate(DEPOSIT_METHODS, 1))
        db.add(
            Wallet(
                merchant_id=wanted["merchant_id"],
                environment="sandbox",
                currency="NGN",
                balance_minor=0,
            )
        )
        db.add_all(Setting(key=key, value=value) for key, value in SETTINGS.items())
        db.add_all(_wallet(wanted, number) for number in range(wanted["wallets"]))


def _merchant(wanted: dict) -> Merchant:
    return Merchant(
        id=wanted["merchant_id"],
        name=wanted["name"],
        status="approved",
        commission_percent=Decimal(wanted["commission_percent"]),
        commission_bearer="customer",
        currencies=["NGN"],
        has_bvn=False,
    )


def _method(number: int, code: str, name: str, provider: str, flow: str) -> Method:
    return Method(
        id=number,
        code=code,
        name=name,
        kind="deposit",
        provider_code=provider,
        flow=flow,
        currency="NGN",
        active=True,
        position=number,
        min_minor=100,
    )


def _credential(wanted: dict) -> Credential:
    return Credential(
        merchant_key=wanted["merchant_key"],
        environment="sandbox",
        merchant_id=wanted["merchant_id"],
        api_key_hash=hashlib.sha256(wanted["api_key"].encode()).digest(),
        secret=wanted["api_secret"].encode(),
    )


def _wallet(wanted: dict, number: int) -> Wallet:
    return Wallet(
        merchant_id=wanted["first_wallet"] + number,
        environment="production",
        currency="NGN",
        balance_minor=wanted["balance_minor"],
    )


if __name__ == "__main__":
    asyncio.run(seed(json.load(sys.stdin)))
