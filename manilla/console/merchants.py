"""The page about one merchant, and the forms that change or create a merchant."""

from decimal import Decimal
from typing import Any

import msgspec

from manilla.approvals import approvals, changes
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import MerchantChange
from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import listing as cases
from manilla.cases.listing import CaseFilter
from manilla.compliance import reviews, sections
from manilla.console import list_pages, responses
from manilla.disputes import balances
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.merchants import api_keys, merchants, queries, wallets
from manilla.merchants.api_keys import ApiKeyRow
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.merchants.queries import MerchantRow
from manilla.merchants.wallets import WalletStatus
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import MethodKind
from manilla.notify import listing as notifications
from manilla.notify.endpoints import store as endpoints
from manilla.notify.listing import NotificationFilter
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.payouts import listing as payouts
from manilla.payouts.listing import PayoutFilter
from manilla.people import invitations, members, persons
from manilla.people.roles import Role
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

RECENT_ROWS = 5
AUDIT_ROWS = 10

# The status changes that an administrator can make, each with the label of its button.
DECISIONS: dict[MerchantStatus, tuple[tuple[MerchantStatus, str], ...]] = {
    MerchantStatus.PENDING: (
        (MerchantStatus.APPROVED, "Approve"),
        (MerchantStatus.REJECTED, "Reject"),
    ),
    MerchantStatus.APPROVED: ((MerchantStatus.DISABLED, "Disable"),),
    MerchantStatus.REJECTED: ((MerchantStatus.APPROVED, "Approve"),),
    MerchantStatus.DISABLED: ((MerchantStatus.APPROVED, "Enable"),),
}
DONE = {
    MerchantStatus.APPROVED: "Approved. The merchant can now use production.",
    MerchantStatus.REJECTED: "Rejected. The merchant sees the reason in the dashboard.",
    MerchantStatus.DISABLED: "Disabled. The API now rejects this merchant's requests.",
}
CHECKS = {
    "kyc": ("kyc_verified", "KYC"),
    "phone": ("phone_verified", "Phone"),
    "payouts": ("payouts_enabled", "Payouts"),
}


async def show_new(request: PageRequest) -> PageResponse:
    return request.page("merchant_new.html", currencies=_currencies(request.services.methods))


async def create(request: PageRequest) -> PageResponse:
    """Creates a merchant and shows its new keys, which are shown only once.

    In production mode the console never shows production keys, because an administrator who has
    them could pay out the merchant's money. The owner rotates them in the dashboard.
    """
    try:
        email = persons.read_email(request.form.required("email"))
        name = request.form.required("name", at_most=merchants.NAME_LENGTH_MAX)
        await request.confirm_identity()
        new = await merchants.create(
            request.db,
            request.services.keyring,
            name=name,
            email=email,
            status=_first_status(request),
            currencies=[request.form.required("currency")],
        )
    except Refusal as refusal:
        return request.form_with_errors(
            "merchant_new.html", refusal, currencies=_currencies(request.services.methods)
        )
    if request.services.is_development:
        return request.page("merchant_keys.html", new=new, shows_production=True)
    return request.page(
        "merchant_keys.html",
        new=new,
        email=email,
        shows_production=False,
        is_invited=await _invite_owner(request, new.id, email),
    )


async def _invite_owner(request: PageRequest, merchant_id: int, email: str) -> bool:
    """Emails the owner's invitation link. Returns False if email is not configured."""
    if not request.services.has_mail:
        return False
    by = request.visitor.person_id
    await invitations.invite(
        request.db, request.services.keyring, by, merchant_id, email, Role.OWNER
    )
    return True


async def show(request: PageRequest) -> PageResponse:
    merchant = await _merchant(request)
    db = request.db
    waiting = await approvals.waiting(db)
    return request.page(
        "merchant.html",
        merchant=merchant,
        decisions=DECISIONS[MerchantStatus(merchant.status)],
        dossier=(dossier := await sections.view(db, merchant)),
        needs_reason=reviews.needs_reason(dossier, needs_dossier=_needs_dossier(request)),
        settings=request.services.platform.now,
        approvals=[each for each in waiting if each.merchant_id == merchant.id],
        wallets=await balances.of_merchant(db, merchant.id),
        keys=await _keys(request, merchant.id),
        further_keys=await _further_keys(request, merchant.id),
        endpoints=await endpoints.of_merchant(db, merchant.id),
        others=[
            code
            for code in _currencies(request.services.methods)
            if code[0] not in merchant.currencies
        ],
        **await _recent(request, merchant.id),
        people=await members.list_of(db, merchant.id),
        lines=await audit.list_entries(db, AuditFilter(merchant_id=merchant.id), limit=AUDIT_ROWS),
    )


async def decide(request: PageRequest) -> PageResponse:
    """Sets the merchant's status.

    If two administrators decide at the same time, the second gets an error.
    """
    merchant = await _merchant(request)
    back = f"/merchants/{merchant.id}"
    try:
        status = request.form.choice("status", MerchantStatus)
        was = request.form.choice("was", MerchantStatus)
        if status not in [to for to, _ in DECISIONS[was]]:
            raise BadForm(errors={"status": "Choose one of the options."})
        reason = request.form.text("reason", at_most=merchants.REASON_LENGTH_MAX)
        await request.confirm_identity()
        await reviews.decide_merchant(
            request.db,
            request.services.keyring,
            merchant.id,
            status,
            reason,
            was=was,
            needs_dossier=_needs_dossier(request),
        )
    except Refusal as refusal:
        return request.redirect_with_errors(back, refusal, keep=("status", "reason"))
    return request.redirect(back, done=DONE[status])


def _needs_dossier(request: PageRequest) -> bool:
    """Returns whether approving a merchant without a KYC dossier requires a reason."""
    return not request.services.is_development


async def check(request: PageRequest) -> PageResponse:
    """Changes the merchant's KYC, phone or payouts switch.

    Concurrent changes to the merchant's other switches are kept.
    """
    merchant = await _merchant(request)
    if request.form.text("what") not in CHECKS:
        raise BadForm(errors={"what": "Choose one of the options."})
    field, title = CHECKS[request.form.text("what")]
    is_on = request.form.is_checked("is_on")
    wanted = msgspec.convert({field: is_on}, MerchantUpdate)
    await merchants.change(request.db, request.services.keyring, merchant.id, wanted)
    words = ("verified", "not verified") if "verified" in field else ("enabled", "disabled")
    done = f"{title}: {words[0] if is_on else words[1]}."
    return request.redirect(f"/merchants/{merchant.id}", done=done)


async def set_commission(request: PageRequest) -> PageResponse:
    merchant = await _merchant(request)
    back = f"/merchants/{merchant.id}"
    try:
        percent: Decimal = request.form.decimal("commission_percent")
        change = MerchantChange(merchant.id, MerchantUpdate(commission_percent=percent))
        await changes.check(request.approvals, change)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change, request.form.text("reason"))
    except Refusal as refusal:
        return request.redirect_with_errors(
            back,
            refusal,
            keep=("commission_percent", "reason"),
            at=((merchants.BadMerchant, "commission_percent"),),
        )
    return responses.done_or_asked(request, back, result, f"Commission set to {percent} %.")


async def switch_currency(request: PageRequest) -> PageResponse:
    merchant = await _merchant(request)
    code, is_on = request.form.text("currency").upper(), request.form.is_checked("is_on")
    back = f"/merchants/{merchant.id}"
    try:
        await merchants.switch_currency(request.db, merchant.id, code, is_on=is_on)
    except Refusal as refusal:
        return request.redirect_with_errors(back, refusal)
    return request.redirect(back, done=f"{code} {'enabled' if is_on else 'disabled'}.")


async def set_wallet(request: PageRequest) -> PageResponse:
    merchant = await _merchant(request)
    currency, status = (
        request.parameter("currency"),
        request.form.choice("status", WalletStatus),
    )
    await wallets.set_status(request.db, merchant.id, request.environment, currency, status)
    done = f"The {request.environment} wallet in {currency} is now {status}."
    return request.redirect(f"/merchants/{merchant.id}", done=done)


async def _merchant(request: PageRequest) -> MerchantRow:
    return await merchants.get(request.db, merchant_number(request))


async def _recent(request: PageRequest, merchant_id: int) -> dict[str, Any]:
    db, scope, limit = request.db, Everyone(merchant_id=merchant_id), RECENT_ROWS
    recent = await notifications.notifications(db, scope, NotificationFilter(), limit=limit)
    return {
        "payments": (await payments.payments(db, scope, PaymentFilter(), limit=limit)).rows,
        "payouts": (await payouts.payouts(db, scope, PayoutFilter(), limit=limit)).rows,
        "cases": (await cases.cases(db, scope, CaseFilter(), limit=limit)).rows,
        "notifications": recent.rows,
    }


async def _keys(request: PageRequest, merchant_id: int) -> list[Any]:
    """Returns the newest credential of each environment, without its secret."""
    found = [
        await queries.credentials(request.db, merchant_id, environment)
        for environment in Environment
    ]
    return [rows[0] for rows in found if rows]


async def _further_keys(request: PageRequest, merchant_id: int) -> list[ApiKeyRow]:
    return [
        row
        for environment in Environment
        for row in await api_keys.list_keys(request.db, merchant_id, environment)
    ]


def merchant_number(request: PageRequest) -> int:
    return list_pages.path_number(request, "merchant", trx_ids.MERCHANT_ID_MAX)


def _first_status(request: PageRequest) -> MerchantStatus:
    status = request.form.choice("status", MerchantStatus)
    if status not in (MerchantStatus.PENDING, MerchantStatus.APPROVED):
        raise BadForm(errors={"status": "Choose one of the options."})
    return status


def _currencies(methods: Catalogue) -> list[tuple[str, str]]:
    """Returns the currencies that at least one method supports.

    A wallet in any other currency could not be used.
    """
    codes = {method.currency for kind in MethodKind for method in methods.all(kind)}
    return [(code, code) for code in sorted(codes, key=lambda code: (code != "NGN", code))]
