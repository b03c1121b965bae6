"""The order in which a merchant prefers its gateways, in each environment."""

from collections.abc import Sequence
from enum import IntEnum

from manilla.audit import audit
from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants


class Step(IntEnum):
    """Where a gateway moves in the list."""

    UP = -1
    DOWN = 1


async def read(
    db: Database | Connection, merchant_id: int, environment: Environment
) -> tuple[str, ...]:
    """Returns the codes in the merchant's order; empty if the merchant has not set one."""
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
    step: Step,
) -> None:
    """Moves a gateway by one place in the list that was shown, and saves the list as the order.

    A gateway at the end of the list stays where it is.
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


def _moved(shown: Sequence[str], code: str, step: Step) -> list[str]:
    codes = list(shown)
    if code in codes:
        place = codes.index(code)
        codes.insert(min(max(place + step, 0), len(codes) - 1), codes.pop(place))
    return codes
