"""Opens disputes that only a provider's statement shows.

Some providers have no API for disputes: they debit their account, and list the debit. Such a
dispute is opened as if an administrator had recorded it, so that its amount is withheld.
"""

from collections.abc import Sequence

from manilla.disputes import states, store
from manilla.disputes.dispute import STATEMENT_PREFIX
from manilla.kit.database.connections import Database
from manilla.ledger import trx_ids
from manilla.payments import store as payments
from manilla.payments.payment import Charge, ChargeStatus
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.reconciliation import disputed
from manilla.reconciliation.disputed import DisputedLine

REASON = "The provider's statement shows that the payment was disputed."


async def open_missing(db: Database, settings: PlatformSettings, provider: str) -> None:
    """Opens a dispute for each unmatched line whose payment has none, or a case."""
    for line in await disputed.unmatched_lines(db, provider):
        merchant_id = trx_ids.merchant_of(line.trx_id) or 0
        if await store.disputes_of(db, merchant_id, line.trx_id):
            continue
        charges = await payments.charges(db, merchant_id, line.trx_id)
        state = DisputeState(
            provider_reference=STATEMENT_PREFIX + line.line_id,
            status=ReportedDisputeStatus.NEEDS_RESPONSE,
            charge_reference=_charge_of(line, provider, charges),
            amount=line.taken,
            reason=REASON,
        )
        await states.report(db, settings, provider, state, is_statement=True)


def _charge_of(line: DisputedLine, provider: str, charges: Sequence[Charge]) -> str | None:
    """Returns the charge that the line names, or the only paid one of the payment it names."""
    paid = [
        each.reference
        for each in charges
        if each.provider == provider and each.status in (ChargeStatus.PAID, ChargeStatus.PART)
    ]
    if line.reference in paid:
        return line.reference
    return paid[0] if len(paid) == 1 and line.names_payment else None
