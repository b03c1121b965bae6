"""Accounts at payment providers, each with a name and a provider kind.

Each kind has an account with the same name as the kind. An administrator can add more accounts.
"""

import re

from manilla.audit import audit
from manilla.kit import changes
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.errors import Refusal
from manilla.providers.kind import ProviderKind
from manilla.providers.kinds import KINDS

# These values have other meanings, so they cannot be account names.
RESERVED = ("auto", "manual", "sandbox")
_NAME = re.compile(r"[a-z][a-z0-9]{1,30}")


class UnknownProvider(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "There is no such provider."


class BadAccount(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The account's name cannot be used."


async def load(db: Database | Connection) -> dict[str, ProviderKind]:
    """Returns a mapping from each account's name to its provider kind.

    Omits accounts of a kind that this version does not support.
    """
    records = await db.records("SELECT name, kind FROM provider_account ORDER BY name")
    added = {each["name"]: KINDS[each["kind"]] for each in records if each["kind"] in KINDS}
    return {**KINDS, **added}


async def kind_of(db: Database | Connection, provider: str) -> ProviderKind:
    kinds = await load(db)
    if provider not in kinds:
        raise UnknownProvider(
            f"There is no provider {provider!r}. The providers are {', '.join(kinds)}."
        )
    return kinds[provider]


async def check_new(db: Database | Connection, kind: str, name: str) -> None:
    if kind not in KINDS:
        raise UnknownProvider(f"There is no kind {kind!r}. The kinds are {', '.join(KINDS)}.")
    if not _NAME.fullmatch(name):
        raise BadAccount(
            "An account name has 2 to 31 characters (a-z and 0-9) and starts with a letter."
        )
    if name in RESERVED:
        raise BadAccount(f"The name {name!r} is reserved. Choose another name.")
    if name in await load(db):
        raise BadAccount(f"An account {name!r} already exists.")


async def add(db: Database | Connection, kind: str, name: str) -> ProviderKind:
    """Adds a provider account of this kind, without credentials.

    An account can never be removed.
    """
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.PROVIDERS)
        await check_new(connection, kind, name)
        await connection.execute(
            "INSERT INTO provider_account (name, kind) VALUES ($1, $2)", *(name, kind)
        )
        await audit.record(connection, "provider.add", f"provider:{name}", kind=kind)
    return KINDS[kind]
