"""Pages for taxes: the rules in force, and new rules."""

from datetime import UTC, datetime
from typing import Any

from manilla.approvals import changes
from manilla.approvals.changes import apply_or_ask
from manilla.console.responses import done_or_asked
from manilla.kit.errors import Refusal
from manilla.prices import input, price, store, wording
from manilla.prices.changes import TaxAddition
from manilla.prices.checks import BadPrice
from manilla.prices.price import Purpose, TaxBearer, TaxRule
from manilla.web.forms import Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

# The fields whose values are words.
_WORDS = ("base", "environment", "borne_by", "collected_by", "currency")
_AMOUNTS = ("percent", "fixed", "threshold")


async def show(request: PageRequest) -> PageResponse:
    return request.page("taxes.html", **await _about(request))


async def _about(request: PageRequest) -> dict[str, Any]:
    rules = (await store.load(request.db)).rules
    now = datetime.now(UTC)
    in_force = {rule.number for rule in price.rules_in_force(rules, now)}
    return {
        "rules": [(rule, _state(rule, in_force, now)) for rule in reversed(rules)],
        "describe_tax": wording.describe_tax,
        "directions": price.TAXED,
        "purposes": [*Purpose],
        "bearers": [*TaxBearer],
    }


def _state(rule: TaxRule, in_force: set[int], now: datetime) -> str:
    if rule.since > now:
        return "planned"
    is_ended = not (rule.content.percent or rule.content.fixed_minor)
    return "replaced" if rule.number not in in_force else "ended" if is_ended else "in force"


async def add(request: PageRequest) -> PageResponse:
    try:
        wanted = TaxAddition(
            name=request.form.required("name"),
            starts_at=input.read_start(request.form.text("since")),
            content=input.read_tax(_fields(request.form)),
        )
        await changes.check(request.approvals, wanted)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, wanted)
    except Refusal as refusal:
        at = ((BadPrice, "name"),)
        return request.form_with_errors("taxes.html", refusal, at=at, **await _about(request))
    return done_or_asked(request, "/taxes", result, "The rule is saved.")


def _fields(form: Form) -> dict[str, str | None]:
    return {
        **{name: form.text(name) for name in (*_WORDS, *_AMOUNTS)},
        "directions": " ".join(each for each in price.TAXED if form.is_checked(each)),
        "exempt": " ".join(each for each in Purpose if form.is_checked(each)),
        "included": "yes" if form.is_checked("included") else "no",
        "returned": "yes" if form.is_checked("returned") else "no",
    }
