"""Stores the origins of a merchant's pages that may show checkout in a frame, per environment."""

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address

from manilla.audit import audit
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.merchants import merchants

ORIGINS_MAX = 20
HOST_LENGTH_MAX = 253
PORT_MAX = 65535
DEFAULT_PORTS = {"https": 443, "http": 80}
LOCAL_HOSTS = ("localhost", "127.0.0.1")
# The pattern permits no character that has a meaning in a content security policy.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ORIGIN = re.compile(rf"(https?)://({_LABEL}(?:\.{_LABEL})*)(?::([0-9]{{1,5}}))?/?")

NOT_AN_ORIGIN = "Enter an origin such as https://shop.example: a scheme and a host, without a path."
NOT_SECURE = "The origin must start with https://."
NOT_LOCAL = "The origin must start with https://. Only localhost can use http://."
TOO_MANY = f"Enter at most {ORIGINS_MAX} origins."


class BadOrigins(Refusal):
    code = "BAD_ORIGINS"


async def read(
    db: Database | Connection, merchant_id: int, environment: Environment
) -> tuple[str, ...]:
    """Returns the allowed origins. If the merchant has none, no page may show checkout."""
    origins: list[str] | None = await db.value(
        "SELECT origins FROM checkout_origins WHERE merchant_id = $1 AND environment = $2",
        *(merchant_id, environment),
    )
    return tuple(origins or ())


async def change(
    db: Database, merchant_id: int, environment: Environment, origins: Iterable[str]
) -> None:
    """Replaces the list of allowed origins, which `parse` has returned."""
    after = list(origins)
    async with db.transaction() as connection:
        await merchants.touch(connection, merchant_id)
        before = await read(connection, merchant_id, environment)
        await connection.execute(
            """
            INSERT INTO checkout_origins (merchant_id, environment, origins) VALUES ($1, $2, $3)
                ON CONFLICT (merchant_id, environment) DO UPDATE SET origins = excluded.origins""",
            *(merchant_id, environment, after),
        )
        await audit.record(
            connection,
            "merchant.checkout_origins",
            f"merchant:{merchant_id}",
            merchant_id=merchant_id,
            environment=environment,
            changed={"checkout_origins": {"before": list(before), "after": after}},
        )


def parse(text: str, environment: Environment) -> list[str]:
    """Returns the origins in a text with one origin per line, normalized and without duplicates."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [_parse_one(line, environment) for line in lines]
    origins = list(dict.fromkeys(found))
    if len(origins) > ORIGINS_MAX:
        raise _problem(TOO_MANY)
    return origins


def _parse_one(line: str, environment: Environment) -> str:
    parts = _ORIGIN.fullmatch(line.lower())
    if parts is None or not _is_host(parts[2]):
        raise _problem(f"{NOT_AN_ORIGIN} This line is not valid: {line[:100]}")
    scheme, host, port = parts[1], parts[2], int(parts[3] or DEFAULT_PORTS[parts[1]])
    if not 0 < port <= PORT_MAX:
        raise _problem(f"{NOT_AN_ORIGIN} This line is not valid: {line[:100]}")
    if scheme == "http" and environment is not Environment.SANDBOX:
        raise _problem(f"{NOT_SECURE} This line is not valid: {line[:100]}")
    if scheme == "http" and host not in LOCAL_HOSTS:
        raise _problem(f"{NOT_LOCAL} This line is not valid: {line[:100]}")
    return f"{scheme}://{host}" + ("" if port == DEFAULT_PORTS[scheme] else f":{port}")


def _is_host(name: str) -> bool:
    """Returns whether a name can be a host. Browsers read a name that ends in a number as IPv4."""
    if len(name) > HOST_LENGTH_MAX:
        return False
    if not name.rsplit(".", 1)[-1].isdigit():
        return True
    try:
        return str(IPv4Address(name)) == name
    except AddressValueError:
        return False


def _problem(text: str) -> BadOrigins:
    return BadOrigins(errors={"origins": text})
