"""Emails to a merchant's users about the merchant's account."""

from manilla.audit.actor import current
from manilla.kit.db import Connection
from manilla.kit.environment import Environment
from manilla.mail import outbox
from manilla.mail.kinds import MailKind


async def report_rotation(
    connection: Connection, merchant_id: int, environment: Environment
) -> None:
    """Emails every owner that API keys were rotated, because new keys can create payouts.

    This includes the owner who rotated the keys, because that session may have been stolen.
    """
    await outbox.put(
        connection,
        MailKind.KEYS_ROTATED,
        {
            "by": current.get().public_name,
            "environment": environment,
            "merchant": await _name(connection, merchant_id),
        },
        path=f"/dashboard/{environment}/credentials",
        merchant_id=merchant_id,
    )


async def _name(connection: Connection, merchant_id: int) -> str:
    return str(await connection.value("SELECT name FROM merchant WHERE id = $1", merchant_id))
