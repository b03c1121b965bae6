"""Makes the tables, and the rows that are asked for on the standard input."""

import asyncio
import hashlib
import json
import sys

from baseline.database import engine, new_session
from baseline.models import Base, Credential, Merchant, Setting, Wallet

SETTINGS = {
    "rate_limit_per_minute": "100000000",
    "site_name": "Baseline",
    "site_logo": "http://127.0.0.1/static/logo.svg",
    "site_url": "http://127.0.0.1",
    "gateway_name": "Baseline Payments",
    "gateway_description": "Payments and payouts for merchants, in naira first.",
}


async def seed(wanted: dict) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with new_session() as db, db.begin():
        db.add(Merchant(id=wanted["merchant_id"], name="Bench", status="approved"))
        await db.flush()
        db.add(_credential(wanted))
        db.add_all(Setting(key=key, value=value) for key, value in SETTINGS.items())
        db.add_all(_wallet(wanted, number) for number in range(wanted["wallets"]))


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
