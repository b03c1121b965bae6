"""SQL queries for plans, their merchants, and tax rules."""

from datetime import datetime
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource
from manilla.prices.price import PlanTerms, PlanVersion, TaxRule, TaxTerms

# The plan in which a merchant has its exceptions, and the merchant id of what is for all of them.
OWN, ANY_MERCHANT = "own", 0


class Assignment(msgspec.Struct, frozen=True):
    """Which plan a merchant has since when. Merchants without an assignment have the default."""

    merchant_id: int
    number: int
    plan: str | None
    starts_at: datetime


class Prices(msgspec.Struct, frozen=True):
    """All plans, assignments and rules."""

    versions: tuple[PlanVersion, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    rules: tuple[TaxRule, ...] = ()


async def load(db: Database | Connection) -> Prices:
    versions = await db.records(
        """
        SELECT plan, version, starts_at, content, merchant_id,
               EXISTS (SELECT FROM price_withdrawal w
                        WHERE w.merchant_id = v.merchant_id AND w.plan = v.plan
                          AND w.version = v.version) AS is_withdrawn
          FROM price_version v ORDER BY merchant_id, plan, version"""
    )
    assignments = await db.rows(
        Assignment,
        "SELECT merchant_id, number, plan, starts_at FROM merchant_plan"
        " ORDER BY merchant_id, number",
    )
    return Prices(
        tuple(msgspec.convert({**row, "content": _read(row)}, PlanVersion) for row in versions),
        tuple(assignments),
        await rules(db),
    )


async def rules(db: Database | Connection) -> tuple[TaxRule, ...]:
    rows = await db.records("SELECT name, number, since, content FROM tax_rule ORDER BY number")
    return tuple(msgspec.convert({**row, "content": _read(row)}, TaxRule) for row in rows)


async def has_taxes(db: RowSource) -> bool:
    return await db.has_row("SELECT true FROM tax_rule LIMIT 1")


def _read(row: Any) -> Any:
    return msgspec.json.decode(row["content"])


async def add_version(connection: Connection, version: PlanVersion, by: str) -> None:
    await connection.execute(
        """
        INSERT INTO price_version (merchant_id, plan, version, starts_at, content, created_by)
        VALUES ($1, $2, $3, $4, $5, $6)""",
        *(version.merchant_id, version.plan, version.version, version.starts_at),
        *(_encoded(version.content), by),
    )


async def add_withdrawal(connection: Connection, version: PlanVersion, by: str) -> None:
    await connection.execute(
        """
        INSERT INTO price_withdrawal (merchant_id, plan, version, created_by)
        VALUES ($1, $2, $3, $4)""",
        *(version.merchant_id, version.plan, version.version, by),
    )


async def add_assignment(connection: Connection, new: Assignment, by: str) -> None:
    await connection.execute(
        """
        INSERT INTO merchant_plan (merchant_id, number, plan, starts_at, created_by)
        VALUES ($1, $2, $3, $4, $5)""",
        *(new.merchant_id, new.number, new.plan, new.starts_at, by),
    )


async def add_rule(connection: Connection, rule: TaxRule, by: str) -> int:
    return await connection.number(
        """
        INSERT INTO tax_rule (name, since, content, created_by)
        VALUES ($1, $2, $3, $4) RETURNING number""",
        *(rule.name, rule.since, _encoded(rule.content), by),
    )


def _encoded(content: PlanTerms | TaxTerms) -> str:
    return msgspec.json.encode(content).decode()
