"""The dashboard's home page: balances, pending transactions, alerts and volume."""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.approvals import approvals
from manilla.bulk import store as bulk
from manilla.disputes import balances
from manilla.disputes import listing as dispute_listing
from manilla.disputes.dispute import DisputeStatus
from manilla.disputes.listing import DisputeFilter
from manilla.kit import deadline
from manilla.kit.display import clean, money
from manilla.kit.environment import Environment
from manilla.kit.listing.sorting import Totals
from manilla.kit.money import Money
from manilla.ledger.daily import DAYS
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants
from manilla.merchants import queries as merchant_queries
from manilla.merchants.merchants import MerchantStatus
from manilla.merchants.queries import MerchantRow
from manilla.merchants.requests.stored import has_succeeded
from manilla.notify import listing as notifications
from manilla.notify.queries import blocked_urls
from manilla.payments import figures as payments
from manilla.payments import listing as payment_listing
from manilla.payments.listing import ListedStatus, PaymentFilter
from manilla.payouts import figures as payouts
from manilla.payouts import listing as payout_listing
from manilla.payouts.listing import PayoutFilter
from manilla.payouts.payout import PayoutStatus
from manilla.people import key_rotations
from manilla.people.roles import Permission
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.refunds.refund import RefundStatus
from manilla.settlements import accounts
from manilla.settlements import store as settlements
from manilla.web import volume
from manilla.web.columns import transactions as transaction_columns
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

RECENT = timedelta(days=7)
LATEST_ROWS = 5
LATEST_COLUMNS = [column for column in transaction_columns.PAYMENT_COLUMNS if column.is_default]
LONG_PENDING = timedelta(hours=1)
DISPUTES = DisputeFilter(status=DisputeStatus.NEEDS_RESPONSE, is_missed=False)
REVIEWED_PAYMENTS = PaymentFilter(status=ListedStatus.UNDER_REVIEW)
REVIEWED_PAYOUTS = PayoutFilter(under_review=True)


class AttentionItem(msgspec.Struct, frozen=True):
    text: str
    path: str
    at: datetime | None = None


class MoneyOnItsWay(msgspec.Struct, frozen=True):
    text: str
    sums: list[Money]
    path: str


class OnboardingStep(msgspec.Struct, frozen=True):
    """An onboarding step, from sign-up to the first production payment."""

    title: str
    is_done: bool
    path: str


async def redirect_to_environment(request: PageRequest) -> PageResponse:
    if request.visitor.merchant_id is None:
        return request.redirect("/account")
    is_live = (
        request.visitor.merchant_status == MerchantStatus.APPROVED
        and not request.services.is_development
    )
    return request.redirect("/production" if is_live else "/sandbox")


async def show(request: PageRequest) -> PageResponse:
    db, tenant = request.db, request.tenant
    merchant = await merchants.get(db, request.merchant_id)
    wallets = await balances.of_merchant(db, request.merchant_id, request.environment)
    wanted = request.query.text("currency")
    currency = wanted if wanted in merchant.currencies else merchant.currencies[0]
    period = volume.chosen_period(request.query.text("period"))
    latest = await payment_listing.payments(
        request.reads, tenant, PaymentFilter(), limit=LATEST_ROWS
    )
    return request.page(
        "home.html",
        merchant=merchant,
        wallets=wallets,
        currency=currency,
        period=period,
        periods=volume.PERIODS,
        measure=volume.measure(request.query.text("show")),
        # If the volume query takes too long, the page is shown without the volume.
        volume=await deadline.or_none(volume.volume(request.reads, tenant, currency, period)),
        latest=latest.rows,
        latest_columns=LATEST_COLUMNS,
        on_its_way=await _on_its_way(request, tenant),
        attention=await _attention(request, tenant),
        steps=await _steps(request, merchant),
    )


async def _on_its_way(request: PageRequest, tenant: Tenant) -> list[MoneyOnItsWay]:
    """Returns the number and total amount of pending payouts and of pending refunds."""
    db, since = request.reads, datetime.now(UTC) - timedelta(days=DAYS)
    sent = PayoutFilter(status=PayoutStatus.PENDING, since=since)
    returned = RefundFilter(status=RefundStatus.PENDING, since=since)
    found = [
        ("payout", "~/payouts?status=pending", payout_listing.totals(db, tenant, sent)),
        ("refund", "~/refunds?status=pending", refunds.totals(db, tenant, returned)),
    ]
    moving = []
    for noun, path, totals in found:
        total = await deadline.or_none(totals)
        if total is not None and total.count:
            nouns = noun if total.count == 1 else f"{noun}s"
            text = f"{total.count:,} pending {nouns}"
            moving.append(MoneyOnItsWay(text, total.sums, request.at(path)))
    return moving


async def _attention(request: PageRequest, tenant: Tenant) -> list[AttentionItem]:
    db, since = request.reads, datetime.now(UTC) - RECENT
    found = [
        (
            await _count(dispute_listing.totals(db, tenant, DISPUTES)),
            "dispute needs a response before its deadline",
            "disputes need a response before their deadlines",
            "~/disputes",
        ),
        (
            await notifications.count_failed(db, tenant, since),
            "notification was not delivered after three attempts",
            "notifications were not delivered after three attempts",
            "~/notifications?state=failed",
        ),
        (
            await payouts.count_waiting(db, tenant, LONG_PENDING),
            "payout has been pending for more than an hour",
            "payouts have been pending for more than an hour",
            "~/payouts?status=pending",
        ),
        (
            await settlements.count_failed(db, tenant, since),
            "settlement failed. The money is in your wallet",
            "settlements failed. The money is in your wallet",
            "~/settlements",
        ),
        (
            await refunds.count_rejected(db, tenant, since),
            "refund was rejected. The money is back in your wallet",
            "refunds were rejected. The money is back in your wallet",
            "~/refunds?status=failed",
        ),
        (
            await bulk.count_rejected(db, tenant, since),
            "bulk payout file has rows that were not paid",
            "bulk payout files have rows that were not paid",
            "~/payouts/bulk",
        ),
        (
            await _count(payment_listing.totals(db, tenant, REVIEWED_PAYMENTS)),
            "payment is under review",
            "payments are under review",
            "~/payments?status=under_review",
        ),
        (
            await _count(payout_listing.totals(db, tenant, REVIEWED_PAYOUTS)),
            "payout is under review",
            "payouts are under review",
            "~/payouts?status=under_review",
        ),
    ]
    counted = [
        AttentionItem(f"{number} {one if number == 1 else many}", request.at(path))
        for number, one, many, path in found
        if number
    ]
    waiting = await _waiting(request)
    blocked = await _blocked_notifications(request)
    accounts = await _settlement_accounts(request, since)
    return [*waiting, *await _key_rotations(request, since), *accounts, *blocked, *counted]


async def _waiting(request: PageRequest) -> list[AttentionItem]:
    """Returns the pending approvals, or an empty list if the user may not move money."""
    if not request.may(Permission.MOVE_MONEY):
        return []
    found = [
        AttentionItem(
            f"Your request needs approval: {clean(each.file_name, 100)}, {money(each.total)}"
            if each.asked_by_id == request.visitor.person_id
            else f"{each.asked_by} asks for your approval: "
            f"{clean(each.file_name, 100)}, {money(each.total)}",
            request.at(f"~/payouts/bulk/{each.id}"),
        )
        for each in await bulk.waiting(request.db, request.tenant)
    ]
    changes = await approvals.count_waiting(request.db, team=request.merchant_id)
    if changes:
        text = "change to payout protection needs approval"
        if changes > 1:
            text = "changes to payout protection need approval"
        found.append(AttentionItem(f"{changes} {text}", request.at("~/protection")))
    return found


async def _count(totals: Awaitable[Totals]) -> int:
    """Returns the number of transactions, or 0 if the query takes too long."""
    found = await deadline.or_none(totals)
    return 0 if found is None else found.count


async def _blocked_notifications(request: PageRequest) -> list[AttentionItem]:
    urls = await blocked_urls(request.db, request.merchant_id, request.environment)
    text = "Notifications are not sent to {}: its host is unknown or not on the public internet"
    return [
        AttentionItem(text.format(clean(url, 100)), request.at("~/notifications")) for url in urls
    ]


async def _key_rotations(request: PageRequest, since: datetime) -> list[AttentionItem]:
    """Returns alerts about recently rotated or created API keys, for owners only.

    A user who rotates or creates a key learns a secret with which they can create payouts.
    """
    if not request.may(Permission.MANAGE_TEAM):
        return []
    rotations = await key_rotations.since(request.db, request.merchant_id, since)
    return [
        AttentionItem(
            f"{each.by} rotated the {each.environment} API keys"
            if each.name is None
            else f"{each.by} created the {each.environment} API key {each.name}",
            request.at(f"/{each.environment}/credentials"),
            each.at,
        )
        for each in rotations
    ]


async def _settlement_accounts(request: PageRequest, since: datetime) -> list[AttentionItem]:
    """Returns alerts about recently changed settlement accounts, for owners only."""
    if not request.may(Permission.MANAGE_TEAM):
        return []
    return [
        AttentionItem(
            f"{each.set_by} set the {each.environment} settlement account in {each.currency}"
            f" to {clean(each.account_name, 100)}",
            request.at(f"/{each.environment}/settlement-account"),
            each.created_at,
        )
        for each in await accounts.set_since(request.db, request.merchant_id, since)
    ]


async def _steps(request: PageRequest, merchant: MerchantRow) -> list[OnboardingStep]:
    """Returns the onboarding steps, or an empty list after the last one, a production payment."""
    db, sandbox = request.db, Tenant(request.merchant_id, Environment.SANDBOX)
    production = Tenant(request.merchant_id, Environment.PRODUCTION)
    keys = await merchant_queries.credentials(db, request.merchant_id, Environment.SANDBOX)
    real = await merchant_queries.credentials(db, request.merchant_id, Environment.PRODUCTION)
    has_keys = any(key.generation > 1 or key.last_used_at for key in real)
    root = request.layout.root
    # Requests from the API explorer do not update `last_used_at`, so search the request log too.
    has_called = any(key.last_used_at for key in keys) or await has_succeeded(db, sandbox)
    steps = [
        OnboardingStep(
            "Send a signed request in the sandbox", has_called, f"{root}/sandbox/explorer"
        ),
        OnboardingStep(
            "Take your first sandbox payment",
            await payments.has_any(db, sandbox),
            f"{root}/sandbox/explorer?operation=initiatePayment",
        ),
        OnboardingStep(
            "Send your first sandbox payout",
            await payouts.has_any(db, sandbox),
            f"{root}/sandbox/payouts/new",
        ),
        OnboardingStep(
            "Add the owner's BVN (optional)",
            merchant.has_bvn,
            f"{root}/profile",
        ),
        OnboardingStep(
            "Get production approval",
            merchant.status == MerchantStatus.APPROVED,
            f"{root}/profile",
        ),
        OnboardingStep(
            "Create your keys for production", has_keys, f"{root}/production/credentials"
        ),
        OnboardingStep(
            "Take your first production payment",
            await payments.has_any(db, production),
            f"{root}/production/payments",
        ),
    ]
    return [] if steps[-1].is_done else steps
