"""A settlement's statement: all changes to the wallet since the previous settlement."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.fields import as_csv
from manilla.kit.listing import Page, in_pages
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.lookup import wallet_statement
from manilla.lookup.wallet_statement import STATEMENT_COLUMNS, WalletLine
from manilla.mail.queries import Mail
from manilla.mail.transport import MailAttachment
from manilla.prices import store as prices
from manilla.settlements import store
from manilla.settlements.store import Settlement

ATTACHED_BYTES_MAX = 1024 * 1024


def entries_of(settlement: Settlement, before: Settlement | None) -> StatementFilter:
    return StatementFilter(since=before.created_at if before else None, until=settlement.created_at)


def pages(
    db: Database, settlement: Settlement, before: Settlement | None
) -> Callable[..., Awaitable[Page[WalletLine]]]:
    """Returns a function that reads one page of the statement."""
    wanted = entries_of(settlement, before)
    return partial(wallet_statement.lines, db, settlement.tenant, settlement.currency, wanted)


async def attach(db: Database, mail: Mail) -> Sequence[MailAttachment]:
    """Returns the statement as a CSV file for the email about the settlement.

    Returns an empty list if the file is too large. The email also links to the statement.
    """
    tenant = Tenant(mail.merchant_id, Environment.PRODUCTION)
    settlement = await store.find_by_reference(db, tenant, mail.shown_facts["reference"])
    assert settlement is not None
    lines = in_pages(pages(db, settlement, await store.before(db, settlement)))
    has_taxes = await prices.has_taxes(db)
    columns = wallet_statement.with_taxes(STATEMENT_COLUMNS) if has_taxes else STATEMENT_COLUMNS
    content = b""
    async for chunk in as_csv(columns, lines):
        content += chunk
        if len(content) > ATTACHED_BYTES_MAX:
            return []
    return [MailAttachment(f"settlement-{settlement.id}.csv", "text/csv", content)]
