"""Reads the visible state of one merchant's payouts, and checks their ledger invariants."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from tests.support.invariants import ALL


class PayoutObserver:
    """Checks all invariants for one merchant only, so that it can run after every step."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._sql = " UNION ALL ".join(
            f"SELECT '{each.name}' AS name, count(*) AS count FROM ({each.violations}) AS broken"
            for each in ALL
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, url: str) -> AsyncIterator["PayoutObserver"]:
        """Opens a connection with temporary views that hide the rows of other merchants.

        The connection does not come from a pool, because a pool replaces connections after some SQL
        statements.
        """
        session = await asyncpg.connect(url)
        await session.execute("SET enable_seqscan = off")
        for record in await session.fetch(
            """
            SELECT table_name AS name FROM information_schema.columns
             WHERE table_schema = 'public' AND column_name = 'merchant_id'"""
        ):
            await session.execute(
                f"""
                CREATE TEMP VIEW {record["name"]} AS SELECT * FROM public.{record["name"]}
                 WHERE merchant_id = current_setting('machine.merchant')::bigint"""
            )
        try:
            yield cls(session)
        finally:
            await session.close()

    async def of(self, merchant_id: int) -> None:
        await self._session.execute(
            "SELECT set_config('machine.merchant', $1, false)", str(merchant_id)
        )

    async def broken(self) -> list[str]:
        return [
            record["name"] for record in await self._session.fetch(self._sql) if record["count"]
        ]

    async def seen(self) -> Any:
        """Returns all data about the payouts that a merchant, an operator or a worker could see."""
        return json.loads(
            await self._session.fetchval(
                """
                SELECT json_build_object(
                    'balance', (SELECT balance_minor FROM wallet
                                 WHERE environment = 'production' AND currency = 'NGN'),
                    'payouts', (SELECT json_object_agg(trx_id, json_build_array(
                        status,
                        coalesce((SELECT json_agg(convert_from(n.body, 'UTF8')::json->>'message'
                                         ORDER BY n.id)
                                    FROM notification n WHERE n.trx_id = p.trx_id), '[]'),
                        EXISTS (SELECT FROM job j WHERE j.kind = 'transfer'
                                   AND j.subject = p.trx_id))) FROM payout p),
                    'cases', (SELECT json_agg(json_build_array(kind, reference))
                                FROM operator_case))"""
            )
        )
