"""Gives the baseline the same merchant, and the same wallets, as the product has."""

import asyncio
import json

from bench.stage import BASELINE_PYTHON, FOLDER, Stage

SEED_SECONDS_MAX = 60


async def seed(
    stage: Stage, first_merchant: int = 0, wallets: int = 0, balance_minor: int = 0
) -> None:
    """May be called by every row: what is there already stays."""
    credentials = stage.merchant.sandbox
    wanted = {
        "merchant_id": stage.merchant.id,
        "merchant_key": credentials.merchant_key,
        "api_key": credentials.api_key,
        "api_secret": credentials.api_secret,
        "first_merchant": first_merchant,
        "wallets": wallets,
        "balance_minor": balance_minor,
    }
    process = await asyncio.create_subprocess_exec(
        *(str(BASELINE_PYTHON), "-m", "baseline.seed"),
        env=stage.baseline_environment(),
        cwd=FOLDER,
        stdin=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SEED_SECONDS_MAX):
            await process.communicate(json.dumps(wanted).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RuntimeError("The baseline could not be given its data.")
