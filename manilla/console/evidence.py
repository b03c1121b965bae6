"""Collects the evidence for a case: our records and the provider's records."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from manilla.cases.cases import Case, CaseKind
from manilla.kit.database.connections import Database
from manilla.lookup.story import PaymentStory, PayoutStory, payment_story, payout_story
from manilla.payments.payment import Charge, Payment
from manilla.payouts import queue
from manilla.payouts.payout import Payout
from manilla.payouts.queue import Progress
from manilla.providers import accounts as provider_accounts
from manilla.providers import listing as providers
from manilla.providers.port import WebhookSubject
from manilla.providers.status_query import StatusQuery
from manilla.refunds.refund import Refund
from manilla.web import timeline
from manilla.web.timeline import TimelineEntry

OURS = frozenset({"API", "Checkout", "Status", "Ledger"})
THEIRS = frozenset({"Provider"})


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence for a case: our records (`ours`) and the provider's records (`theirs`).

    Both lists are in chronological order. Fields that do not apply to the case are None.
    """

    ours: list[TimelineEntry]
    theirs: list[TimelineEntry]
    payment: Payment | None = None
    charge: Charge | None = None
    refund: Refund | None = None
    payout: Payout | None = None
    progress: Progress | None = None
    question: StatusQuery | None = None  # the status query that a user can trigger from the page


NO_NAMES: Mapping[str, str] = MappingProxyType({})


async def gather(db: Database, case: Case, method_names: Mapping[str, str] = NO_NAMES) -> Evidence:
    trx_id = case.trx_id or case.reference.partition("-")[0]
    payout = await payout_story(db, case.merchant_id, trx_id)
    if payout is not None:
        return _of_payout(payout, await queue.progress(db, payout.payout), case)
    payment = await payment_story(db, case.merchant_id, trx_id)
    if payment is not None:
        return _of_payment(payment, case, method_names)
    heard = await providers.webhooks_about(db, case.merchant_id, [case.reference])
    provider = heard[0].provider if heard else ""
    question = None
    if case.kind == CaseKind.UNKNOWN_REFERENCE and provider in await provider_accounts.load(db):
        question = StatusQuery(provider, WebhookSubject(heard[0].kind), case.reference)
    return Evidence(ours=[], theirs=timeline.of_webhooks(heard), question=question)


def _of_payout(history: PayoutStory, progress: Progress | None, case: Case) -> Evidence:
    payout = history.payout
    question = None
    if payout.provider is not None and not payout.is_sandbox:
        provider = case.provider or payout.provider
        question = StatusQuery(provider, WebhookSubject.TRANSFER, payout.trx_id)
    timeline_events = timeline.of_payout(history, is_internal=True)
    return Evidence(
        ours=_from(timeline_events, OURS),
        theirs=_from(timeline_events, THEIRS),
        payout=payout,
        progress=progress,
        question=question,
    )


def _of_payment(history: PaymentStory, case: Case, method_names: Mapping[str, str]) -> Evidence:
    charge = next((each for each in history.charges if each.reference == case.reference), None)
    refund = next((each for each in history.refunds if each.trx_id == case.reference), None)
    question = None
    if charge is not None:
        question = StatusQuery(charge.provider, WebhookSubject.CHARGE, charge.reference)
    elif refund is not None and refund.provider is not None:
        question = StatusQuery(refund.provider, WebhookSubject.REFUND, refund.trx_id)
    timeline_events = timeline.of_payment(history, method_names, is_internal=True)
    return Evidence(
        ours=_from(timeline_events, OURS),
        theirs=_from(timeline_events, THEIRS),
        payment=history.payment,
        charge=charge,
        refund=refund,
        question=question,
    )


def _from(timeline_events: Sequence[TimelineEntry], sources: frozenset[str]) -> list[TimelineEntry]:
    return [each for each in timeline_events if each.source in sources]
