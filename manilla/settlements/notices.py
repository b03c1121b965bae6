"""Emails the merchant's finance users about settlements that have ended."""

from manilla.kit import display
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.settlements import accounts, store
from manilla.settlements.store import Settlement


async def report_end(connection: Connection, settlement: Settlement, remark: str | None) -> None:
    """Emails users that a settlement was paid or, if there is a remark, that it failed."""
    if settlement.environment is not Environment.PRODUCTION:
        return
    facts = {"amount": display.money(settlement.amount), "reference": settlement.ref_trx}
    kind = MailKind.SETTLEMENT_SENT
    if remark is None:
        before = await store.before(connection, settlement)
        facts["account"] = await _account(connection, settlement)
        facts["period"] = _period(before, settlement)
    else:
        kind, facts["reason"] = MailKind.SETTLEMENT_FAILED, remark
    await outbox.put(
        connection,
        kind,
        facts,
        path=f"/dashboard/{settlement.environment}/settlements/{settlement.id}",
        merchant_id=settlement.merchant_id,
    )


async def _account(connection: Connection, settlement: Settlement) -> str:
    """Returns the account to which the settlement was paid. It may have been replaced since."""
    if settlement.account_id is None:  # the settlement was created by an earlier version
        return ""
    found = await accounts.find(connection, settlement.tenant, settlement.account_id)
    return "" if found is None else f"{found.bank_name}, {found.account_name}"


def _period(before: Settlement | None, settlement: Settlement) -> str:
    """Returns the period of the settlement's statement as text."""
    days = [each.created_at.astimezone(LAGOS) for each in (before, settlement) if each]
    return " to ".join(f"{day:%d %b %Y %H:%M}" for day in days)
