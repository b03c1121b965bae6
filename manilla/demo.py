"""The demonstration merchant of development mode.

Its credentials are derived from the master key, so that every start can show them although the
database keeps only what it needs to check them.
"""

import contextlib
import shlex
import time
from collections.abc import Mapping

import msgspec

from manilla.api.authenticate import sign
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.ledger.posting import Environment
from manilla.merchants import credentials, merchants, queries
from manilla.merchants.credentials import NewCredentials, hash_api_key
from manilla.merchants.merchants import Status
from manilla.people import console_people, members, show
from manilla.people.invitations import AlreadyMember
from manilla.people.persons import EmailTaken
from manilla.people.roles import ConsoleRole, Role
from manilla.providers import credentials as providers
from manilla.providers.port import Provider

NAME = "Demo Store"
OWNER, ADMINISTRATOR = "Demo Owner", "Demo Administrator"


class Demo(msgspec.Struct, frozen=True):
    merchant_id: int
    sandbox: NewCredentials
    production: NewCredentials
    simulator_url: str


async def ensure_provider(
    db: Database, keyring: Keyring, provider: Provider, simulated: Mapping[str, str]
) -> None:
    """Points a provider at the simulator, unless somebody has given it credentials of their own."""
    current = (await providers.load(db, keyring))[provider]
    own = current.given.get("secret_key")
    if own is None or own == simulated["secret_key"]:
        await providers.change(db, keyring, provider, {**simulated, "sandbox": "true"})


async def ensure(db: Database, keyring: Keyring, simulator_url: str) -> Demo | None:
    """None where somebody has rotated the demo's keys: then they are theirs, not ours to show."""
    sandbox = credentials.derived(keyring, Environment.SANDBOX)
    production = credentials.derived(keyring, Environment.PRODUCTION)
    merchant_id = await queries.merchant_id_by_key(db, Environment.SANDBOX, sandbox.merchant_key)
    if merchant_id is None:
        new = await merchants.create(
            db,
            keyring,
            name=NAME,
            email=show.EMAIL,
            status=Status.APPROVED,
            sandbox=sandbox,
            production=production,
        )
        merchant_id = new.id
    await _ensure_people(db, keyring, merchant_id)
    live = await queries.credentials(db, merchant_id, Environment.SANDBOX)
    if all(row.api_key_hash != hash_api_key(sandbox.api_key) for row in live):
        return None
    return Demo(merchant_id, sandbox, production, simulator_url)


async def _ensure_people(db: Database, keyring: Keyring, merchant_id: int) -> None:
    password = show.of(keyring).password
    with contextlib.suppress(AlreadyMember):
        await members.add(
            db, merchant_id, email=show.EMAIL, name=OWNER, role=Role.OWNER, password=password
        )
    with contextlib.suppress(EmailTaken):
        await console_people.create(
            db,
            email=show.EMAIL,
            name=ADMINISTRATOR,
            role=ConsoleRole.ADMINISTRATOR,
            password=password,
        )


def signed_curl(base_url: str, credentials: NewCredentials) -> str:
    """A command that works when pasted, for as long as its timestamp is within the tolerance."""
    path, now = "/api/v1/site-info", int(time.time())
    headers = {
        "X-Environment": "sandbox",
        "X-Merchant-Key": credentials.merchant_key,
        "X-API-Key": credentials.api_key,
        "X-Timestamp": str(now),
        "X-Signature": sign(credentials.api_secret.encode(), now, "GET", path, b""),
    }
    parts = ["curl", "-sS", base_url + path]
    for name, value in headers.items():
        parts += ["-H", f"{name}: {value}"]
    return shlex.join(parts)
