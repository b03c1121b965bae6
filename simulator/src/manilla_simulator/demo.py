"""The demo merchant of development mode.

The merchant's credentials are derived from the master key, so every start of the server can print
them. The database stores only what is needed to verify the credentials.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from manilla.development import Demo
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins, credentials, merchants, queries
from manilla.merchants.checkout_origins import BadOrigins
from manilla.merchants.credentials import hash_api_key
from manilla.merchants.merchants import MerchantStatus
from manilla.people import console_people, demo_login, members
from manilla.people.members import AlreadyMember
from manilla.people.persons import EmailTaken
from manilla.people.roles import ConsoleRole, Role
from manilla.providers import credentials as providers
from manilla_simulator.history import file

NAME = "Demo Store"
OWNER, SECOND, ADMINISTRATOR = "Demo Owner", "Demo Finance", "Demo Administrator"


async def ensure_provider(
    db: Database, keyring: Keyring, provider: str, simulated: Mapping[str, str]
) -> None:
    """Configures a provider to use the simulator, unless the provider already has credentials."""
    current = (await providers.load(db, keyring))[provider]
    own = current.given.get("secret_key")
    if own is None or own == simulated["secret_key"]:
        await providers.change(db, keyring, provider, {**simulated, "sandbox": "true"})


async def ensure(
    db: Database,
    keyring: Keyring,
    base_url: str,
    simulator_url: str,
    history_folder: Path | None = None,
) -> Demo | None:
    """Creates the demo merchant. If it is new, also records that its history must be created.

    Returns None if the demo merchant's keys were rotated, because rotated keys cannot be shown.
    """
    sandbox = credentials.derive(keyring, Environment.SANDBOX)
    production = credentials.derive(keyring, Environment.PRODUCTION)
    merchant_id = await queries.merchant_id_by_key(db, Environment.SANDBOX, sandbox.merchant_key)
    if merchant_id is None:
        with file.begun(history_folder):
            new = await merchants.create(
                db,
                keyring,
                name=NAME,
                email=demo_login.EMAIL,
                status=MerchantStatus.APPROVED,
                sandbox=sandbox,
                production=production,
            )
        merchant_id = new.id
    await _ensure_people(db, keyring, merchant_id)
    await _allow_shop(db, merchant_id, base_url)
    live = await queries.credentials(db, merchant_id, Environment.SANDBOX)
    if all(row.api_key_hash != hash_api_key(sandbox.api_key) for row in live):
        return None
    return Demo(merchant_id, NAME, sandbox, production, simulator_url)


async def _allow_shop(db: Database, merchant_id: int, base_url: str) -> None:
    """Allows the demo shop's page to show the demo merchant's checkout in a dialog."""
    allowed = await checkout_origins.read(db, merchant_id, Environment.SANDBOX)
    with contextlib.suppress(BadOrigins):  # a shop that cannot be allowed opens checkout itself
        [origin] = checkout_origins.parse(base_url, Environment.SANDBOX)
        if origin not in allowed and len(allowed) < checkout_origins.ORIGINS_MAX:
            wanted = [*allowed, origin]
            await checkout_origins.change(db, merchant_id, Environment.SANDBOX, wanted)


async def _ensure_people(db: Database, keyring: Keyring, merchant_id: int) -> None:
    password = demo_login.of(keyring).password
    for email, name, role in (
        (demo_login.EMAIL, OWNER, Role.OWNER),
        (demo_login.SECOND_EMAIL, SECOND, Role.FINANCE),
    ):
        with contextlib.suppress(AlreadyMember):
            await members.add(db, merchant_id, email=email, name=name, role=role, password=password)
    with contextlib.suppress(EmailTaken):
        await console_people.create(
            db,
            keyring,
            email=demo_login.EMAIL,
            name=ADMINISTRATOR,
            role=ConsoleRole.ADMINISTRATOR,
            password=password,
        )
