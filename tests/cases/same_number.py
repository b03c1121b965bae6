"""Cases of two merchants with the same number, as after a move between cells."""

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants


async def two_cases(db: Database, keyring: Keyring) -> tuple[int, tuple[int, int]]:
    """Opens two cases with the same number. Returns the number and both merchants."""
    new = await merchants.create(db, keyring, name="First", email="first@example.com")
    await cases.open_case(
        *(db, CaseKind.UNKNOWN_REFERENCE, f"REF-{new.id}", "Look at it."),
        merchant_id=new.id,
        environment=Environment.PRODUCTION,
    )
    number = await db.number("SELECT id FROM operator_case WHERE merchant_id = $1", new.id)
    return number, (new.id, await add_case(db, keyring, number))


async def add_case(db: Database, keyring: Keyring, number: int) -> int:
    """Creates a merchant with a case that has this number. Returns the merchant's number."""
    new = await merchants.create(db, keyring, name="Moved", email="moved@example.com")
    await db.execute(
        """
        INSERT INTO operator_case (id, merchant_id, environment, kind, reference, detail)
        OVERRIDING SYSTEM VALUE VALUES ($1, $2, 'production', $3, $4, 'Arrived.')""",
        *(number, new.id, CaseKind.UNKNOWN_REFERENCE, f"REF-{new.id}"),
    )
    return new.id
