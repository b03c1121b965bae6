"""Creates postings and statement lines for an account that no other test uses."""

import secrets
from datetime import UTC, date, datetime, timedelta

from manilla.cases import cases
from manilla.cases.cases import Case
from manilla.kit.clock import start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import Line, Posting
from manilla.posting_kinds import PostingKind
from manilla.providers.port import EVERY_MOVEMENT, LineKind, StatementLine
from manilla.reconciliation import importing, lines, unmatched
from manilla.reconciliation.unmatched import Unmatched

TODAY = datetime.now(UTC)


def day(ago: int) -> date:
    return lines.day_of(TODAY) - timedelta(days=ago)


def noon(ago: int) -> datetime:
    return start_of_day(day(ago)) + timedelta(hours=12)


def naira(minor: int) -> Money:
    return Money("NGN", minor)


class Account:
    """A provider account, with its clearing account in the ledger and its statement."""

    def __init__(self, db: Database, owner: Database) -> None:
        self.db = db
        self.owner = owner
        self.name = f"account{secrets.token_hex(6)}"

    async def post(
        self,
        minor: int,
        ago: int = 3,
        *,
        kind: PostingKind = PostingKind.SETTLE_TOP_UP,
        trx_id: str | None = None,
    ) -> str:
        """Posts a movement of our balance, dated `ago` days ago, and returns its transaction id."""
        trx_id = trx_id or trx_ids.new(0)
        order = Posting(
            *(0, trx_id, kind, Environment.PRODUCTION, naira(0)),
            lines=(Line(posting.clearing(self.name), -minor), Line(posting.BANK, minor)),
        )
        async with self.db.transaction() as connection:
            await posting.post(connection, [order])
        # Disable the trigger, because even the ledger's owner may only append rows.
        async with self.owner.transaction() as connection:
            await connection.execute("ALTER TABLE posting DISABLE TRIGGER append_only")
            await connection.execute(
                "UPDATE posting SET posted_at = $2 WHERE trx_id = $1 AND kind = $3",
                *(trx_id, noon(ago), kind),
            )
            await connection.execute("ALTER TABLE posting ENABLE TRIGGER append_only")
        return trx_id

    def line(
        self,
        minor: int,
        ago: int = 3,
        *,
        reference: str | None = None,
        provider_reference: str | None = None,
        kind: LineKind = LineKind.OTHER,
        line_id: str | None = None,
        minutes: int = 0,
    ) -> StatementLine:
        return StatementLine(
            line_id=line_id or secrets.token_hex(8),
            booked_at=noon(ago) + timedelta(minutes=minutes),
            amount=naira(minor),
            kind=kind,
            reference=reference,
            provider_reference=provider_reference,
        )

    async def imports(self, *given: StatementLine, days: tuple[int, int] = (5, 1)) -> None:
        """Imports the lines as the statement for these days, and matches them with the ledger."""
        covered = [day(ago) for ago in range(days[1], days[0] + 1)]
        async with self.db.transaction() as connection:
            await lines.store(connection, self.name, given)
            await lines.store_days(connection, self.name, "NGN", covered, EVERY_MOVEMENT)
        await self.compare()

    async def compare(self) -> None:
        await importing.compare(self.db, self.name, noon(9), EVERY_MOVEMENT)

    async def unmatched(self) -> list[Unmatched]:
        return await unmatched.find_unmatched(self.db, self.name)

    async def findings(self) -> list[tuple[str, int | None, int | None]]:
        found = await self.unmatched()
        return [(each.finding, each.ledger_minor, each.statement_minor) for each in found]

    async def cases(self, *, include_resolved: bool = False) -> list[Case]:
        found = await cases.cases(self.db, include_resolved=include_resolved)
        return [case for case in found if case.reference.startswith(f"{self.name}:")]
