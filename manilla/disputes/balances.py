"""A merchant's wallets, with the money that is withheld from them."""

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.merchants import queries
from manilla.merchants.queries import WalletRow
from manilla.withheld.withheld import OPEN


class DisputedWallet(WalletRow, frozen=True):
    withheld_minor: int = 0  # what is withheld, in addition to the balance


async def of_merchant(
    db: Database | Connection, merchant_id: int, environment: Environment | None = None
) -> list[DisputedWallet]:
    """Returns the wallets of one environment, or of both."""
    records = await db.records(
        f"""
        SELECT environment, currency, sum(minor)::bigint AS minor FROM {OPEN} AS open
         WHERE merchant_id = $1
         GROUP BY environment, currency""",
        merchant_id,
    )
    withheld = {(each["environment"], each["currency"]): each["minor"] for each in records}
    return [
        DisputedWallet(
            **msgspec.structs.asdict(row),
            withheld_minor=withheld.get((row.environment, row.currency), 0),
        )
        for row in await queries.wallets(db, merchant_id)
        if environment in (None, row.environment)
    ]


async def of_wallet(
    db: Database | Connection, merchant_id: int, environment: Environment, currency: str
) -> DisputedWallet | None:
    wallets = await of_merchant(db, merchant_id, environment)
    return next((each for each in wallets if each.currency == currency), None)
