"""Emails a merchant's users about the merchant's account."""

from collections.abc import Sequence

from manilla.audit.actor import current
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants.queries import MerchantRow


async def report_rotation(
    connection: Connection, merchant_id: int, environment: Environment
) -> None:
    """Emails every owner that API keys were rotated, because new keys can create payouts.

    The owner who rotated the keys gets the email too, because their session may be stolen.
    """
    await outbox.put(
        connection,
        MailKind.KEYS_ROTATED,
        {"by": current.get().public_name, "environment": environment},
        path=f"/dashboard/{environment}/credentials",
        merchant_id=merchant_id,
    )


async def report_key(
    connection: Connection,
    merchant_id: int,
    environment: Environment,
    name: str,
    rights: Sequence[str],
) -> None:
    """Emails every owner that an API key was created or, if `rights` is empty, revoked."""
    facts = {"by": current.get().public_name, "environment": environment}
    await outbox.put(
        connection,
        MailKind.KEY_CHANGED,
        {**facts, "name": name, "rights": ", ".join(rights)},
        path=f"/dashboard/{environment}/credentials",
        merchant_id=merchant_id,
    )


async def report_decision(connection: Connection, before: MerchantRow, after: MerchantRow) -> None:
    """Emails the owners that their business was approved or rejected."""
    kinds: dict[str, tuple[MailKind, dict[str, str]]] = {
        "approved": (MailKind.MERCHANT_APPROVED, {}),
        "rejected": (MailKind.MERCHANT_REJECTED, {"reason": after.status_reason or ""}),
    }
    if after.status != before.status and after.status in kinds:
        kind, facts = kinds[after.status]
        await outbox.put(connection, kind, facts, path="/dashboard/", merchant_id=after.id)
