"""Verifies that the master key belongs to this database before the key is used."""

from manilla.kit.crypto import Keyring, SealedColumn, SealError
from manilla.kit.db import Database
from manilla.kit.errors import Refusal

_CONTEXT = "master_key_proof"

SEALED = SealedColumn("master_key_proof", "sealed", ("one",), lambda _row: _CONTEXT)


class WrongMasterKey(Refusal):
    message = (
        "The master key does not match the key that encrypts this database's secrets. "
        "Set MANILLA_MASTER_KEY to that key (or, in development, restore master.key)."
    )


async def verify(db: Database, keyring: Keyring) -> None:
    await db.execute(
        "INSERT INTO master_key_proof (sealed) VALUES ($1) ON CONFLICT DO NOTHING",
        keyring.seal(b"proof", _CONTEXT),
    )
    try:
        keyring.open(await db.value("SELECT sealed FROM master_key_proof"), _CONTEXT)
    except SealError as error:
        raise WrongMasterKey from error
