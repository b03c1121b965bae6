"""Creates many funded merchants in one transaction, with Manilla's own functions."""

import msgspec

from manilla.kit import changes
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import ADJUSTMENT, Line, Posting, PostingOutcome
from manilla.merchants import credentials, queries
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import NEW_RULES, MerchantStatus
from manilla.posting_kinds import PostingKind

NAME, EMAIL, CURRENCY = "Bench", "bench@example.com", "NGN"
BALANCE_MINOR = 1_000_000_000_000


class Seeded(msgspec.Struct, frozen=True):
    id: int
    credentials: NewCredentials


async def add(
    db: Database, keyring: Keyring, number: int, environment: Environment
) -> list[Seeded]:
    """Adds approved and funded merchants with consecutive ids."""
    async with db.transaction() as connection:
        version = await changes.announce(connection, changes.MERCHANTS)
        seeded = []
        for _ in range(number):
            merchant_id = await queries.insert_merchant(
                connection,
                name=NAME,
                email=EMAIL,
                status=MerchantStatus.APPROVED,
                currencies=[CURRENCY],
                rules=NEW_RULES,
                version=version,
            )
            new = credentials.generate(environment, merchant_id)
            await queries.insert_merchant_key(
                connection, merchant_id, environment, new.merchant_key
            )
            await credentials.insert(connection, keyring, new, merchant_id, environment, 1)
            await queries.open_wallets(connection, merchant_id, environment, [CURRENCY])
            seeded.append(Seeded(merchant_id, new))
        posted = await posting.post(connection, [_funding(each.id, environment) for each in seeded])
        assert all(each.outcome is PostingOutcome.POSTED for each in posted)
    assert seeded[-1].id - seeded[0].id == number - 1
    return seeded


def _funding(merchant_id: int, environment: Environment) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=PostingKind.FUNDING,
        environment=environment,
        wallet=Money(CURRENCY, BALANCE_MINOR),
        lines=(Line(ADJUSTMENT, -BALANCE_MINOR),),
    )
