"""Reads merchants and their payout method as one line of JSON, and inserts them."""

import asyncio
import hashlib
import json
import sys
from decimal import Decimal

from baseline.database import new_session
from baseline.models import Credential, Merchant, Method, Wallet

CURRENCY = "NGN"


async def seed(wanted: dict) -> None:
    async with new_session() as db, db.begin():
        method = wanted["method"]
        if await db.get(Method, method["id"]) is None:
            db.add(_method(wanted))
        for given in wanted["merchants"]:
            db.add(_merchant(wanted, given))
        await db.flush()
        for given in wanted["merchants"]:
            db.add(_credential(given))
            db.add(_wallet(wanted, given))


def _method(wanted: dict) -> Method:
    return Method(
        **wanted["method"],
        kind="withdraw",
        provider_code=wanted["provider"],
        currency=CURRENCY,
        active=True,
        position=1,
        min_minor=wanted["min_minor"],
        max_minor=wanted["max_minor"],
        fee_fixed_minor=wanted["fee_fixed_minor"],
    )


def _merchant(wanted: dict, given: dict) -> Merchant:
    return Merchant(
        id=given["id"],
        name=wanted["name"],
        status="approved",
        commission_percent=Decimal(0),
        commission_bearer="customer",
        currencies=[CURRENCY],
        has_bvn=False,
    )


def _credential(given: dict) -> Credential:
    return Credential(
        merchant_key=given["merchant_key"],
        environment="sandbox",
        merchant_id=given["id"],
        api_key_hash=hashlib.sha256(given["api_key"].encode()).digest(),
        secret=given["api_secret"].encode(),
    )


def _wallet(wanted: dict, given: dict) -> Wallet:
    return Wallet(
        merchant_id=given["id"],
        environment="sandbox",
        currency=CURRENCY,
        balance_minor=wanted["balance_minor"],
    )


def main() -> None:
    print("{}", flush=True)
    wanted = json.loads(sys.stdin.readline())
    asyncio.run(seed(wanted))
    print(json.dumps({"done": len(wanted["merchants"]), "seconds": 1}), flush=True)


if __name__ == "__main__":
    main()
