"""Verifies that the master key belongs to this database before the key is used."""

from manilla.kit.crypto import Keyring, SealedColumn, SealError
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal

CONTEXT = "master_key_proof"

SEALED = SealedColumn("master_key_proof", "sealed", ("one",), lambda _row: CONTEXT)


class WrongMasterKey(Refusal):
    message = (
        "The master key does not match the key that encrypts this database's secrets. "
        "Set MANILLA_MASTER_KEY to that key (or, in development, restore master.key)."
    )


async def verify(db: Database, keyring: Keyring) -> None:
    await db.execute(
        "INSERT INTO master_key_proof (sealed) VALUES ($1) ON CONFLICT DO NOTHING",
        keyring.seal(b"proof", CONTEXT),
    )
    try:
        keyring.open(await db.value("SELECT sealed FROM master_key_proof"), CONTEXT)
    except SealError as error:
        raise WrongMasterKey from error
