"""API keys are stored as hashes. Secrets are stored encrypted, because signing needs them."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from manilla.kit import ids
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal


class InvalidCredentials(Refusal):
    """Invalid credentials. The error names the wrong header only if that is safe."""

    status, code = 401, "INVALID_CREDENTIALS"
    message = "Invalid API credentials."

    def __init__(
        self, *, errors: Mapping[str, str] | None = None, logged: str | None = None
    ) -> None:
        super().__init__(errors=errors)
        self.logged = logged  # the reason for the error, shown only in the merchant's request log
        # The merchant whose key was sent. Its request log shows the failed request.
        self.merchant: Any = None


class NewCredentials(msgspec.Struct, frozen=True):
    """New credentials in plain text, shown to the merchant only once."""

    merchant_key: str
    api_key: str
    api_secret: str


class LiveCredential(msgspec.Struct, frozen=True):
    """Valid credentials: the current generation, or an older generation that has not expired."""

    api_key_hash: bytes
    secret: bytes
    expires_at: datetime | None
    generation: int

    def is_live(self, moment: datetime) -> bool:
        return self.expires_at is None or moment < self.expires_at


def generate(
    environment: Environment, merchant_id: int, merchant_key: str | None = None
) -> NewCredentials:
    """Generates credentials. Both keys start with the merchant's number, so that a proxy can find
    the merchant's cell.
    """
    prefix = key_prefix(environment)
    owned = prefix + ids.base32(merchant_id, ids.OWNER_CHARACTERS).lower()
    return NewCredentials(
        merchant_key=merchant_key or ids.new_key(owned),
        api_key=ids.new_key(owned),
        api_secret=ids.new_key(prefix),
    )


def key_prefix(environment: Environment) -> str:
    return "test_" if environment is Environment.SANDBOX else ""


def has_number(key: str, merchant_id: int) -> bool:
    """Returns whether a merchant key or API key starts with the merchant's number."""
    start = key.removeprefix(key_prefix(Environment.SANDBOX))[: ids.OWNER_CHARACTERS]
    return len(start) == ids.OWNER_CHARACTERS and ids.number(start.upper()) == merchant_id


def derive(keyring: Keyring, environment: Environment) -> NewCredentials:
    """Derives the demo merchant's credentials from the master key, so that they never change."""
    prefix = key_prefix(environment)

    def key(name: str) -> str:
        number = int.from_bytes(keyring.derive(f"demo:{environment}:{name}")[:20])
        return prefix + ids.base32(number, 32).lower()

    return NewCredentials(key("merchant_key"), key("api_key"), key("api_secret"))


def hash_api_key(api_key: str | bytes) -> bytes:
    """Hashes an API key. A fast hash is enough, because the key has 160 random bits."""
    return hashlib.sha256(api_key.encode() if isinstance(api_key, str) else api_key).digest()


def secret_context(merchant_id: int, environment: Environment, generation: int) -> str:
    """Returns the associated data that binds an encrypted secret to its row."""
    return f"credential:{merchant_id}:{environment}:{generation}"


SEALED = SealedColumn(
    "credential",
    "secret_sealed",
    ("merchant_id", "environment", "generation"),
    lambda row: secret_context(row["merchant_id"], row["environment"], row["generation"]),
)


def live(credentials: Sequence[LiveCredential]) -> Sequence[LiveCredential]:
    if len(credentials) == 1 and credentials[0].expires_at is None:
        return credentials  # usually there is one credential, which does not expire
    now = datetime.now(UTC)
    return [credential for credential in credentials if credential.is_live(now)]


async def insert(
    connection: Connection,
    keyring: Keyring,
    new: NewCredentials,
    merchant_id: int,
    environment: Environment,
    generation: int,
) -> None:
    context = secret_context(merchant_id, environment, generation)
    sealed = keyring.seal(new.api_secret.encode(), context)
    await connection.execute(
        """
        INSERT INTO credential
               (merchant_id, environment, generation, api_key_hash, secret_sealed, has_number)
        VALUES ($1, $2, $3, $4, $5, $6)""",
        *(merchant_id, environment, generation, hash_api_key(new.api_key), sealed),
        has_number(new.api_key, merchant_id),
    )


async def expire(
    connection: Connection, merchant_id: int, environment: Environment, overlap_minutes: int
) -> int:
    """Makes valid credentials expire after the overlap, unless they already expire earlier.

    Returns the number of the newest generation, including expired generations.
    """
    return await connection.number(
        """
        WITH ended AS (
            UPDATE credential
               SET expires_at = least(expires_at, now() + make_interval(mins => $3))
             WHERE merchant_id = $1 AND environment = $2
               AND (expires_at IS NULL OR expires_at > now()))
        SELECT max(generation) FROM credential WHERE merchant_id = $1 AND environment = $2""",
        merchant_id,
        environment,
        overlap_minutes,
    )
