"""The heads of both hash chains, which are recorded outside of the database.

The owner of the database can rewrite both chains. Only a head that is kept elsewhere detects that.
"""

from datetime import datetime

import msgspec

from manilla.audit import audit
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection, Database
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.proofs import verify


class Heads(msgspec.Struct, frozen=True):
    """The last links, in the format of the options `--expect` and `--audit-kept`."""

    chain_head: str
    audit_head: str


async def heads(db: Database | Connection) -> Heads:
    link = await db.record(verify.HEAD)
    return Heads(verify.anchor(link["number"], link["hash"]), str(await audit.head(db)))


async def mail_heads(db: Database) -> None:
    """Queues an email with the heads for administrators, once per day and instance."""
    today = datetime.now(LAGOS).date()
    async with db.transaction() as connection:
        is_due = await connection.has_row(
            """
            UPDATE posting_chain_head SET mailed_on = $1
             WHERE mailed_on IS DISTINCT FROM $1 AND number > 0
            RETURNING true""",
            today,
        )
        if is_due:
            facts = {"day": today.isoformat(), **msgspec.structs.asdict(await heads(connection))}
            await outbox.put(connection, MailKind.LEDGER_HEADS, facts, path="/console/ledger")
