"""Pages for price plans: the plans, their versions, and which merchant has which plan."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from manilla.approvals import changes
from manilla.approvals.changes import apply_or_ask
from manilla.console.responses import done_or_asked
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.merchants import merchants
from manilla.merchants.queries import MerchantRow
from manilla.prices import checks, input, price, store, wording
from manilla.prices.book import PriceBook
from manilla.prices.changes import PlanAssignment, PlanChange, PlanWithdrawal, versions_of
from manilla.prices.checks import BadPrice
from manilla.prices.price import PlanTerms, PriceDirection, PriceLine
from manilla.prices.store import ANY_MERCHANT, OWN, Prices
from manilla.web.forms import Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

EXAMPLES = (1_000, 2_500, 10_000, 100_000, 1_000_000)  # in major units
EXAMPLE_LINE = (
    PriceLine(direction=PriceDirection.PAYMENT, currency="NGN"),
    PriceLine(direction=PriceDirection.PAYOUT, currency="NGN"),
)


async def show_all(request: PageRequest) -> PageResponse:
    return request.page("plans.html", **await _all(request))


async def _all(request: PageRequest) -> dict[str, Any]:
    prices, now = await store.load(request.db), datetime.now(UTC)
    plans = {each.plan for each in prices.versions if each.merchant_id == ANY_MERCHANT}
    return {
        "plans": [_summary(prices, plan, now) for plan in sorted(plans)],
        "default": PriceBook(prices).plan(ANY_MERCHANT, now),
        "assignments": [each for each in prices.assignments if each.starts_at > now],
        "options": _options(plans),
    }


def _summary(prices: Prices, plan: str, now: datetime) -> dict[str, Any]:
    versions = versions_of(prices, plan, ANY_MERCHANT)
    return {
        "plan": plan,
        "now": price.in_force(versions, now),
        "last": versions[-1],
        "next": next(
            (each for each in versions if each.starts_at > now and not each.is_withdrawn), None
        ),
    }


def _options(plans: set[str]) -> list[tuple[str, str]]:
    return [("", "None: percentage and method fees"), *((plan, plan) for plan in sorted(plans))]


async def show(request: PageRequest) -> PageResponse:
    return request.page("plan.html", **await _about(request))


async def _about(request: PageRequest) -> dict[str, Any]:
    merchant, plan = await _subject(request)
    prices, now = await store.load(request.db), datetime.now(UTC)
    merchant_id = merchant.id if merchant else ANY_MERCHANT
    versions = versions_of(prices, plan, merchant_id)
    last = next((each for each in reversed(versions) if not each.is_withdrawn), None)
    lines = last.content.lines if last else () if merchant else EXAMPLE_LINE
    text = input.write_lines(lines)
    return {
        "plan": plan,
        "merchant": merchant,
        "last": last,
        "after": versions[-1].version if versions else 0,
        "now": price.in_force(versions, now),
        "versions": list(reversed(versions)),
        "planned": {each.version for each in versions if each.starts_at > now},
        "lines": text,
        "columns": ", ".join(input.COLUMNS),
        "of_line": wording.of_line,
        "place": _path(request, merchant, plan),
        "options": _options(
            {each.plan for each in prices.versions if each.merchant_id == ANY_MERCHANT}
        ),
        "assigned": PriceBook(prices).plan(merchant_id, now),
        "assignments": [each for each in prices.assignments if each.merchant_id == merchant_id],
        **_worked(text, request.query),
    }


def _path(request: PageRequest, merchant: MerchantRow | None, plan: str) -> str:
    return request.at(f"/merchants/{merchant.id}/prices" if merchant else f"/prices/plans/{plan}")


async def _subject(request: PageRequest) -> tuple[MerchantRow | None, str]:
    """Returns the merchant and its exceptions, or no merchant and the plan."""
    if "plan" in request.http.parameters:
        plan = request.parameter("plan")
        if plan == OWN or checks.plan_problem(plan):
            raise PageNotFound
        return None, plan
    try:
        return await merchants.get(request.db, int(request.parameter("merchant"))), OWN
    except (ValueError, Refusal):
        raise PageNotFound from None


async def show_preview(request: PageRequest) -> PageResponse:
    """Renders worked amounts of the unsaved lines. The browser reloads them as the user types."""
    await _subject(request)
    text = request.query.text("lines", at_most=20_000)
    return request.page("plan_preview.html", **_worked(text, request.query))


def _worked(text: str, given: Form) -> dict[str, Any]:
    """Computes what each line charges for some amounts."""
    try:
        lines = input.read_lines(text)
        checks.check_plan("preview", PlanTerms(title="Preview", lines=lines))
        amounts = _amounts(given.text("amount"), lines)
    except BadPrice as bad:
        return {"problem": bad.text, "worked": [], "amounts": []}
    worked = [
        (
            wording.of_line(line),
            [line.terms.of(Money.of(amount, line.currency)) for amount in amounts],
        )
        for line in lines[:20]
    ]
    return {"problem": "", "worked": worked, "amounts": amounts}


def _amounts(text: str, lines: Sequence[PriceLine]) -> list[int]:
    own = [int(text)] if text.isascii() and text.isdigit() and len(text) <= 12 else []
    return sorted({*EXAMPLES, *own})


async def create(request: PageRequest) -> PageResponse:
    """Opens the page of a new plan. Its first version creates the plan."""
    try:
        plan = request.form.required("plan")
        problem = checks.plan_problem(plan)
        if problem or plan == OWN:
            raise BadPrice(errors={"plan": problem or "This code is for merchants' exceptions."})
    except Refusal as refusal:
        return request.form_with_errors("plans.html", refusal, **await _all(request))
    return request.redirect(f"/prices/plans/{plan}")


async def change(request: PageRequest) -> PageResponse:
    merchant, plan = await _subject(request)
    form = request.form
    try:
        wanted = PlanChange(
            plan=plan,
            merchant_id=merchant.id if merchant else ANY_MERCHANT,
            after=form.integer("after"),
            starts_at=_start(form),
            content=PlanTerms(
                title=form.required("title", at_most=checks.TITLE_LENGTH_MAX),
                lines=_lines(form),
                returns_commission=form.is_checked("returns_commission"),
            ),
        )
        await changes.check(request.approvals, wanted)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, wanted)
        return done_or_asked(request, _back(merchant, plan), result, "The new version is saved.")
    except Refusal as refusal:
        at = ((BadPrice, "lines"),)
        return request.form_with_errors("plan.html", refusal, at=at, **await _about(request))


async def withdraw(request: PageRequest) -> PageResponse:
    merchant, plan = await _subject(request)
    back = _back(merchant, plan)
    try:
        wanted = PlanWithdrawal(
            plan=plan,
            merchant_id=merchant.id if merchant else ANY_MERCHANT,
            version=request.form.integer("version"),
        )
        await changes.check(request.approvals, wanted)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, wanted)
    except Refusal as refusal:
        return request.redirect_with_errors(back, refusal)
    return done_or_asked(request, back, result, "The version is withdrawn.")


def _back(merchant: MerchantRow | None, plan: str) -> str:
    return f"/merchants/{merchant.id}/prices" if merchant else f"/prices/plans/{plan}"


async def assign(request: PageRequest) -> PageResponse:
    """Gives a merchant a plan, or all merchants without a plan of their own."""
    back, merchant_id = "/prices", ANY_MERCHANT
    if "merchant" in request.http.parameters:
        merchant, _ = await _subject(request)
        assert merchant is not None
        back, merchant_id = f"/merchants/{merchant.id}/prices", merchant.id
    try:
        wanted = PlanAssignment(
            merchant_id=merchant_id,
            plan=request.form.text("assigned") or None,
            starts_at=_start(request.form),
        )
        await changes.check(request.approvals, wanted)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, wanted)
        return done_or_asked(request, back, result, "The plan is assigned.")
    except Refusal as refusal:
        return request.redirect_with_errors(back, refusal, at=((BadPrice, "assigned"),))


def _lines(form: Form) -> tuple[PriceLine, ...]:
    return input.read_lines(form.text("lines", at_most=20_000))


def _start(form: Form) -> datetime | None:
    try:
        return input.read_start(form.text("starts_at"))
    except BadPrice as bad:
        raise BadPrice(errors={"starts_at": bad.text}) from None
