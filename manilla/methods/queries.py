"""SQL queries for methods."""

from decimal import Decimal

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.price import PriceTerms
from manilla.methods.method import Flow, Method, MethodKind


class _Row(msgspec.Struct, frozen=True):
    kind: str
    id: int
    code: str
    name: str
    provider: str | None
    flow: str | None
    currency: str
    active: bool
    position: int
    min_minor: int
    max_minor: int | None
    fee_fixed_minor: int
    fee_percent: Decimal
    fee_minimum_minor: int | None
    fee_maximum_minor: int | None


_SELECT = """
    SELECT kind, id, code, name, provider, flow, currency, active, position, min_minor, max_minor,
           fee_fixed_minor, fee_percent, fee_minimum_minor, fee_maximum_minor
      FROM method"""


async def methods(db: Database | Connection) -> list[Method]:
    rows = await db.rows(_Row, _SELECT + " ORDER BY kind, position, id")
    return [_method(row) for row in rows]


async def lock(connection: Connection, code: str) -> Method | None:
    row = await connection.row(_Row, _SELECT + " WHERE code = $1 FOR UPDATE", code)
    return None if row is None else _method(row)


def _method(row: _Row) -> Method:
    return Method(
        kind=MethodKind(row.kind),
        id=row.id,
        code=row.code,
        name=row.name,
        provider=row.provider or None,
        flow=Flow(row.flow) if row.flow else None,
        currency=row.currency,
        active=row.active,
        position=row.position,
        min_minor=row.min_minor,
        max_minor=row.max_minor,
        fee=PriceTerms(
            row.fee_fixed_minor, row.fee_percent, row.fee_minimum_minor, row.fee_maximum_minor
        ),
    )


async def next_position(connection: Connection, kind: str) -> int:
    return await connection.number(
        "SELECT coalesce(max(position), 0) + 1 FROM method WHERE kind = $1", kind
    )


async def insert(connection: Connection, method: Method) -> None:
    fee = method.fee
    await connection.execute(
        """
        INSERT INTO method (kind, code, name, provider, flow, currency, active, position, min_minor,
                            max_minor, fee_fixed_minor, fee_percent, fee_minimum_minor,
                            fee_maximum_minor)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)""",
        *(method.kind, method.code, method.name, method.provider, method.flow, method.currency),
        *(method.active, method.position, method.min_minor, method.max_minor),
        *(fee.fixed_minor, fee.percent, fee.minimum_minor, fee.maximum_minor),
    )


async def update(connection: Connection, method: Method) -> None:
    fee = method.fee
    await connection.execute(
        """
        UPDATE method
           SET name = $2, active = $3, position = $4, min_minor = $5, max_minor = $6,
               fee_fixed_minor = $7, fee_percent = $8, fee_minimum_minor = $9,
               fee_maximum_minor = $10
         WHERE code = $1""",
        *(method.code, method.name, method.active, method.position),
        *(method.min_minor, method.max_minor),
        *(fee.fixed_minor, fee.percent, fee.minimum_minor, fee.maximum_minor),
    )
