"""Endpoints' signing secrets, which are stored encrypted. Each valid secret signs every message."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.notify.endpoints.endpoint import WebhookEndpoint
from manilla.notify.signing import standard_key

SECRET_BYTES = 32
LIVE_MAX = 5  # maximum number of secrets; a rotation deletes the oldest one


def context(row: Any) -> str:
    return f"endpoint:{row['merchant_id']}:{row['endpoint_id']}:{row['number']}"


SEALED = SealedColumn(
    "endpoint_secret", "sealed", ("merchant_id", "endpoint_id", "number"), context
)


class NewSecret(msgspec.Struct, frozen=True):
    endpoint_id: str
    number: int
    text: str


async def add(connection: Connection, keyring: Keyring, endpoint: WebhookEndpoint) -> NewSecret:
    """Creates the endpoint's next secret."""
    secret, key = os.urandom(SECRET_BYTES), (endpoint.merchant_id, endpoint.id)
    number = await connection.number(
        "SELECT coalesce(max(number), 0) + 1 FROM endpoint_secret"
        " WHERE merchant_id = $1 AND endpoint_id = $2",
        *key,
    )
    row = {"merchant_id": key[0], "endpoint_id": key[1], "number": number}
    await connection.execute(
        "INSERT INTO endpoint_secret (merchant_id, endpoint_id, number, sealed)"
        " VALUES ($1, $2, $3, $4)",
        *(*key, number, keyring.seal(secret, context(row))),
    )
    return NewSecret(endpoint.id, number, standard_key(secret))


async def find(
    db: Database, keyring: Keyring, merchant_id: int, endpoint_id: str, number: int
) -> NewSecret | None:
    """Returns a secret that is still valid, to repeat a response that got lost."""
    row = {"merchant_id": merchant_id, "endpoint_id": endpoint_id, "number": number}
    sealed = await db.value(
        """
        SELECT sealed FROM endpoint_secret
         WHERE merchant_id = $1 AND endpoint_id = $2 AND number = $3
           AND (expires_at IS NULL OR expires_at > now())""",
        *row.values(),
    )
    if sealed is None:
        return None
    secret = keyring.open(sealed, context(row))
    return NewSecret(endpoint_id, number, standard_key(secret))


async def expire(connection: Connection, endpoint: WebhookEndpoint, overlap_minutes: int) -> None:
    """Sets the expiry time of the valid secrets.

    Deletes expired secrets and surplus old secrets.
    """
    await connection.execute(
        """
        WITH live AS (
            SELECT number, row_number() OVER (ORDER BY number DESC) AS age FROM endpoint_secret
             WHERE merchant_id = $1 AND endpoint_id = $2
               AND (expires_at IS NULL OR expires_at > now())),
        ended AS (
            DELETE FROM endpoint_secret
             WHERE merchant_id = $1 AND endpoint_id = $2
               AND ($3 = 0 OR number NOT IN (SELECT number FROM live WHERE age < $4)))
        UPDATE endpoint_secret
           SET expires_at = least(expires_at, now() + make_interval(mins => $3))
         WHERE merchant_id = $1 AND endpoint_id = $2 AND $3 > 0
           AND number IN (SELECT number FROM live WHERE age < $4)""",
        *(endpoint.merchant_id, endpoint.id, overlap_minutes, LIVE_MAX),
    )


async def destroy(connection: Connection, endpoint: WebhookEndpoint) -> None:
    await connection.execute(
        "DELETE FROM endpoint_secret WHERE merchant_id = $1 AND endpoint_id = $2",
        *(endpoint.merchant_id, endpoint.id),
    )


def contexts(merchant_id: int, endpoint_id: str, numbers: Sequence[int]) -> list[str]:
    row = {"merchant_id": merchant_id, "endpoint_id": endpoint_id}
    return [context({**row, "number": number}) for number in numbers]
