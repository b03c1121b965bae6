"""Finds transfers that only a provider's statement shows, and queries them.

Webhooks and polls report nearly all transfers before a statement does.
"""

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.database.connections import Database
from manilla.providers.rails import Rails
from manilla.reconciliation import unmatched


async def query_missing(db: Database, rails: Rails) -> None:
    """Adds a job for each unmatched line that may be a transfer into a customer's account."""
    for provider, current in rails.accounts.items():
        if current.is_valid and current.kind.capabilities.permanent_accounts:
            found = await unmatched.unknown_receipts(db, provider)
            subjects = sorted({f"{provider}:{reference}" for reference in found})
            await jobs.put_missing(db, JobKind.ACCOUNT_TRANSFER, subjects)
