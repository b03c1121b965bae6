"""Ledger postings for disputes. Each is the difference between two versions of a dispute."""

from manilla.disputes.dispute import Dispute
from manilla.kit.database.connections import Connection
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.ledger.posting import Line, Posting
from manilla.merchants import wallets
from manilla.merchants.merchants import CommissionBearer
from manilla.merchants.wallets import CoveredPostings
from manilla.payments.payment import Payment
from manilla.platform import dated
from manilla.platform.setting_texts import CommissionRule
from manilla.platform.settings import PlatformSettings
from manilla.posting_kinds import PostingKind
from manilla.withheld.withheld import Movement


async def between(connection: Connection, before: Dispute, after: Dispute) -> CoveredPostings:
    """Returns the postings that turn one version of a dispute into the other.

    The caller holds the payment's lock, and writes the postings in the same transaction. What the
    wallet cannot cover becomes a debt of the merchant.
    """
    clearing = posting.clearing(after.provider)
    movement = Movement(
        merchant_id=after.merchant_id,
        trx_id=after.trx_id,
        environment=after.environment,
        currency=after.currency,
        before=before.holding,
        after=after.holding,
        taker=clearing,
        reason=after.reason,
    ).posting()
    commission = after.commission_minor - before.commission_minor
    wanted = [
        movement,
        _fee(before, after),
        _of_wallet(
            after,
            PostingKind.COMMISSION_RETURNED,
            commission,
            Line(posting.COMMISSION, -commission),
        ),
    ]
    numbered = [await posting.with_number(connection, each) for each in wanted if each is not None]
    return await wallets.cover_or_owe(connection, numbered)


def _fee(before: Dispute, after: Dispute) -> Posting | None:
    """Returns the posting of the fee that the provider takes, or that the plan charges.

    With a plan, the platform earns the plan's fee and bears the provider's.
    """
    charged = after.fee.minor - before.fee.minor
    taken = after.fee_minor - before.fee_minor
    lines = [Line(posting.clearing(after.provider), taken)]
    if after.price is not None:
        lines.append(Line(posting.provider_fee(after.provider), -taken))
        lines.append(Line(posting.COMMISSION, charged))
    return _of_wallet(after, PostingKind.DISPUTE_FEE, -charged, *lines)


def _of_wallet(dispute: Dispute, kind: PostingKind, minor: int, *lines: Line) -> Posting | None:
    """Returns the posting that adds an amount to the wallet, from other accounts."""
    if not posting.nonzero(*lines):
        return None
    return Posting(
        merchant_id=dispute.merchant_id,
        trx_id=dispute.trx_id,
        kind=kind,
        environment=dispute.environment,
        wallet=Money(dispute.currency, minor),
        lines=posting.nonzero(*lines),
        reason=dispute.reason,
    )


def returned_commission_minor(
    settings: PlatformSettings, payment: Payment, taken_minor: int
) -> int:
    """Returns the part of the commission that the merchant gets back for what was taken."""
    day = payment.created_at.date()
    if dated.value_on(settings.dispute_commission, day) != CommissionRule.RETURNED:
        return 0
    if payment.is_sandbox and payment.commission_bearer is CommissionBearer.MERCHANT:
        return 0  # the sandbox deducts no commission
    return payment.commission_minor * taken_minor // payment.quote.customer_pays.minor
