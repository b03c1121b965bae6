"""The credentials page: lists and rotates the main keys, creates and revokes additional keys."""

import base64
from datetime import date, datetime, timedelta

from manilla.kit import clock
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.listing import INTEGER_MAX
from manilla.merchants import api_keys, merchants, queries
from manilla.merchants.api_keys import ApiKeyTerms
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import MerchantStatus
from manilla.merchants.rights import GRANTABLE, Right
from manilla.people.roles import Permission
from manilla.web.forms import BadForm
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

OVERLAPS = (
    (0, "Expire immediately"),
    (60, "Keep valid for 1 hour"),
    (24 * 60, "Keep valid for 1 day"),
    (7 * 24 * 60, "Keep valid for 1 week"),
)


NOT_YET = "You can create keys for production when your business is approved."

# The permissions that an API key can have, each with its label and description in the form.
RIGHTS = (
    (Right.PAYMENTS, "Payments", "Create payments and payment links."),
    (Right.PAYOUTS, "Payouts", "Send money from your wallets to bank accounts."),
    (Right.REFUNDS, "Refunds", "Refund payments to your customers."),
    (Right.READ, "Read", "Read transactions, balances and events."),
    (Right.MANAGE, "Manage", "Change customers and their accounts."),
    (Right.CHARGE, "Charge", "Charge what customers have saved, such as a card."),
    (Right.WEBHOOKS, "Webhooks", "Create own webhook endpoints. They receive all events."),
)
assert tuple(right for right, _, _ in RIGHTS) == GRANTABLE


async def show(request: PageRequest) -> PageResponse:
    rows = await queries.credentials(request.db, request.merchant_id, request.environment)
    first = rows[0] if len(rows) == 1 and rows[0].generation == 1 else None
    return request.page(
        "credentials.html",
        is_pending=is_pending(request),
        # Sign-up does not show the first keys for production.
        is_unseen=request.environment is Environment.PRODUCTION
        and first is not None
        and first.last_used_at is None,
        merchant_key=rows[0].merchant_key,
        credentials=rows,
        keys=await api_keys.list_keys(request.db, request.merchant_id, request.environment),
        overlaps=OVERLAPS,
        base_url=request.services.base_url,
        may_rotate=_may_rotate(request),
    )


async def send_for_docs(request: PageRequest) -> PageResponse:
    """Sends the merchant key as JSON, for the examples in the documentation."""
    rows = await queries.credentials(request.db, request.merchant_id, request.environment)
    return PageResponse.json({"merchant_key": rows[0].merchant_key}, headers=NO_STORE)


async def rotate(request: PageRequest) -> PageResponse:
    if is_pending(request):
        return request.redirect("~/credentials", failed=NOT_YET)
    try:
        new = await merchants.rotate(
            request.db,
            request.services.keyring,
            request.merchant_id,
            request.environment,
            overlap_minutes=request.form.integer("overlap_minutes"),
        )
    except Refusal as refusal:
        return request.redirect_with_errors("~/credentials", refusal)
    return _show_once(request, new, webhook_key=_webhook_secret(new.api_secret))


def _show_once(
    request: PageRequest,
    keys: NewCredentials,
    *,
    name: str | None = None,
    webhook_key: str | None = None,
) -> PageResponse:
    """Renders a page instead of redirecting, because the keys are shown only once."""
    base_url = request.services.base_url
    return request.page(
        "new_credentials.html", keys=keys, name=name, webhook_key=webhook_key, base_url=base_url
    )


async def show_new_key(request: PageRequest) -> PageResponse:
    if is_pending(request):
        return request.redirect("~/credentials", failed=NOT_YET)
    return request.page("key_new.html", rights=RIGHTS)


async def create_key(request: PageRequest) -> PageResponse:
    if is_pending(request):
        return request.redirect("~/credentials", failed=NOT_YET)
    try:
        terms = _read_terms(request)
        await request.confirm_identity()
        new = await api_keys.create(
            request.db, request.services.keyring, request.merchant_id, request.environment, terms
        )
    except Refusal as refusal:
        return request.form_with_errors("key_new.html", refusal, rights=RIGHTS)
    return _show_once(request, new, name=terms.name)


async def revoke_key(request: PageRequest) -> PageResponse:
    number = int(request.parameter("key"))
    if not 0 < number <= INTEGER_MAX:
        raise PageNotFound
    try:
        name = await api_keys.revoke(request.db, request.merchant_id, request.environment, number)
    except Refusal as refusal:
        return request.redirect_with_errors("~/credentials", refusal)
    return request.redirect("~/credentials", done=f"Key {name} revoked.")


def _read_terms(request: PageRequest) -> ApiKeyTerms:
    form = request.form
    chosen = form.all("rights")
    return ApiKeyTerms(
        name=form.required("name", at_most=api_keys.NAME_LENGTH_MAX),
        rights=[right for right in GRANTABLE if right in chosen],
        networks=form.text("networks", at_most=5000).replace(",", " ").split(),
        expires_at=_read_expiry(form.text("expires_at")),
    )


def _read_expiry(text: str) -> datetime | None:
    """Parses an expiry date. Returns the end of that day in Lagos, or None if it is empty."""
    if not text:
        return None
    try:
        return clock.start_of_day(date.fromisoformat(text) + timedelta(days=1))
    except (ValueError, OverflowError):
        raise BadForm.at("expires_at", "Enter a date, such as 2027-01-31.") from None


def is_pending(request: PageRequest) -> bool:
    """Returns whether the keys are for production, and the merchant is not approved yet."""
    status = request.visitor.merchant_status
    return request.environment is Environment.PRODUCTION and status == MerchantStatus.PENDING


def _may_rotate(request: PageRequest) -> bool:
    if is_pending(request):
        return False
    return request.environment is Environment.SANDBOX or request.may(Permission.MOVE_MONEY)


def _webhook_secret(secret: str) -> str:
    """Returns the API secret in the format that Standard Webhooks libraries expect."""
    return "whsec_" + base64.b64encode(secret.encode()).decode()
