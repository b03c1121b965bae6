"""Stores the order in which a merchant prefers its gateways, per environment."""

from collections.abc import Sequence
from enum import IntEnum

from manilla.audit import audit
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants


class OrderStep(IntEnum):
    """The direction in which a gateway moves in the list."""

    UP = -1
    DOWN = 1


async def read(
    db: Database | Connection, merchant_id: int, environment: Environment
) -> tuple[str, ...]:
    """Returns the gateway codes in the merchant's order, or an empty tuple if it is not set."""
    codes: list[str] | None = await db.value(
        "SELECT codes FROM gateway_order WHERE merchant_id = $1 AND environment = $2",
        *(merchant_id, environment),
    )
    return tuple(codes or ())


async def move(
    db: Database,
    merchant_id: int,
    environment: Environment,
    shown: Sequence[str],
    code: str,
    step: OrderStep,
) -> None:
    """Moves a gateway up or down by one in the displayed list, and saves the new order.

    The first gateway cannot move up, and the last gateway cannot move down.
    """
    after = _moved(shown, code, step)
    async with db.transaction() as connection:
        await merchants.touch(connection, merchant_id)
        before = await read(connection, merchant_id, environment)
        await connection.execute(
            """
            INSERT INTO gateway_order (merchant_id, environment, codes) VALUES ($1, $2, $3)
                ON CONFLICT (merchant_id, environment) DO UPDATE SET codes = excluded.codes""",
            *(merchant_id, environment, after),
        )
        await audit.record(
            connection,
            "merchant.gateway_order",
            f"merchant:{merchant_id}",
            merchant_id=merchant_id,
            environment=environment,
            changed={"gateway_order": {"before": list(before), "after": after}},
        )


def _moved(shown: Sequence[str], code: str, step: OrderStep) -> list[str]:
    codes = list(shown)
    if code in codes:
        place = codes.index(code)
        codes.insert(min(max(place + step, 0), len(codes) - 1), codes.pop(place))
    return codes
