"""Creates the same merchant and wallets for Manilla and for the baseline."""

import asyncio
import json
from decimal import Decimal

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import ADJUSTMENT, Line, Posting
from manilla.merchants import merchants
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate, NewMerchant
from manilla.merchants.queries import open_wallets
from manilla.platform import master_key, settings
from manilla.posting_kinds import PostingKind
from manilla.providers import credentials as providers

FIRST_WALLET, WALLETS = 1_000_000, 1000  # ids of merchants that only have a wallet
BALANCE_MINOR = 1_000_000_000_000
NO_LIMIT = "100000000"
NAME, COMMISSION_PERCENT = "Bench", "1.5"
# These credentials are never used, because no measured request calls a provider.
PROVIDER_SETTINGS = {
    "providera": {"secret_key": "bench", "webhook_secret": "bench", "sandbox": "true"},
    "providerb": {"api_key": "b", "secret_key": "b", "business_id": "b", "sandbox": "true"},
    "providerc": {"secret_key": "bench", "webhook_secret": "bench", "sandbox": "true"},
}
SEED_SECONDS_MAX = 60


async def product(
    db: Database, keyring: Keyring, sandbox: NewCredentials | None = None
) -> NewMerchant:
    """Creates a merchant without a rate limit, with a commission and with every gateway enabled.

    Uses the given sandbox credentials, or generates new ones.
    """
    await master_key.verify(db, keyring)
    await settings.change(db, "rate_limit_per_minute", NO_LIMIT)
    for provider, wanted in PROVIDER_SETTINGS.items():
        await providers.change(db, keyring, provider, wanted)
    merchant = await merchants.create(
        db,
        keyring,
        name=NAME,
        email="bench@example.com",
        status=MerchantStatus.APPROVED,
        sandbox=sandbox,
    )
    commission = MerchantUpdate(commission_percent=Decimal(COMMISSION_PERCENT))
    await merchants.change(db, keyring, merchant.id, commission)
    return merchant


async def wallets(db: Database) -> None:
    owners = range(FIRST_WALLET, FIRST_WALLET + WALLETS)
    async with db.transaction() as connection:
        for merchant_id in owners:
            await open_wallets(connection, merchant_id, Environment.PRODUCTION, ["NGN"])
        await posting.post(connection, [_funding(merchant_id) for merchant_id in owners])


def _funding(merchant_id: int) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=PostingKind.FUNDING,
        environment=Environment.PRODUCTION,
        wallet=Money("NGN", BALANCE_MINOR),
        lines=(Line(ADJUSTMENT, -BALANCE_MINOR),),
    )


async def baseline(python: str, environment: dict[str, str], merchant: NewMerchant) -> None:
    """Seeds the baseline in a separate process, because the ORM is not installed here."""
    wanted = {
        "merchant_id": merchant.id,
        "name": NAME,
        "commission_percent": COMMISSION_PERCENT,
        "merchant_key": merchant.sandbox.merchant_key,
        "api_key": merchant.sandbox.api_key,
        "api_secret": merchant.sandbox.api_secret,
        "first_wallet": FIRST_WALLET,
        "wallets": WALLETS,
        "balance_minor": BALANCE_MINOR,
    }
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "baseline.seed"), env=environment, stdin=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(SEED_SECONDS_MAX):
            await process.communicate(json.dumps(wanted).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RuntimeError("The baseline's data could not be inserted.")
