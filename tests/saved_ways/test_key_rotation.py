"""Customers' numbers and the tokens of saved ways move to a new master key."""

import os

import pytest

from manilla.cli import master_key
from manilla.customers import customer as customers
from manilla.customers import store
from manilla.customers.customer import PersonalNumbers
from manilla.kit import crypto
from manilla.kit.crypto import KEY_BYTES, Keyring, SealError
from manilla.kit.database.connections import Connection, Database
from manilla.saved_ways import way as ways
from manilla.settings import Settings
from tests.saved_ways.steps import Lender

PLACES = (*customers.SEALED, ways.SEALED)


async def rewrap(db: Database, *keys: bytes) -> list[int]:
    async def permit(_connection: Connection, _merchant_id: int) -> None:
        pass

    return [await crypto.rewrap_column(db, Keyring(keys), place, permit) for place in PLACES]


async def test_numbers_and_tokens_move_to_a_new_master_key(
    lender: Lender, settings: Settings
) -> None:
    reference = await lender.customer(bvn="22222222222", nin="12345678901")
    way = await lender.save_card(reference)
    assert way.token_sealed is not None
    [old, *_], new = settings.master_keys, os.urandom(KEY_BYTES)
    token = Keyring([old]).open(way.token_sealed, way.context)
    try:
        moved = await rewrap(lender.db, new, old)
        assert min(moved) >= 1
        found = await store.of_tenant(lender.db, lender.tenant, reference)
        numbers = PersonalNumbers("22222222222", "12345678901")
        assert found.personal_numbers(Keyring([new])) == numbers
        with pytest.raises(SealError):
            found.personal_numbers(Keyring([old]))
        sealed = (await lender.now(way)).token_sealed
        assert sealed is not None
        assert Keyring([new]).open(sealed, way.context) == token
        with pytest.raises(SealError):
            Keyring([old]).open(sealed, way.context)
        assert await rewrap(lender.db, new) == [0, 0, 0]
    finally:
        await rewrap(lender.db, old, new)


async def test_every_sealed_column_moves(db: Database) -> None:
    """A column that the command does not know is lost when the old master key is removed."""
    records = await db.records(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE data_type = 'bytea' AND column_name LIKE '%sealed'"
    )
    known = {(place.table, place.column) for place in master_key.PLACES}
    assert {(row["table_name"], row["column_name"]) for row in records} == known
