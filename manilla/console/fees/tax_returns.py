"""Tax returns: each tax's liability in a month, its files, and remittances to the authority."""

from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from typing import Any

from manilla.approvals import changes
from manilla.approvals.changes import apply_or_ask
from manilla.console import responses
from manilla.invoices import files, returns
from manilla.invoices.remittance import REFERENCE_LENGTH_MAX, TaxRemittance
from manilla.invoices.returns import TaxReturn
from manilla.invoices.tasks import LEDGER_SECONDS
from manilla.kit.clock import LAGOS
from manilla.kit.errors import Refusal
from manilla.kit.money import DECIMALS, Money
from manilla.ledger import provider_funds
from manilla.web import exports
from manilla.web.exports import attachment
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE, TEMPLATE = "/tax-returns", "tax_returns.html"
MONTHS = 13


async def show(request: PageRequest) -> PageResponse:
    found = await _returns(request)
    if exports.is_wanted(request):
        name = f"tax-return-{_month(request):%Y-%m}"
        return exports.send(request, name, returns.COLUMNS, _in_one_page(found))
    return request.page(TEMPLATE, **await _values(request, found))


async def send_pdf(request: PageRequest) -> PageResponse:
    month = _month(request)
    content = await files.write_returns(month, await _returns(request))
    return attachment(f"tax-returns-{month:%Y-%m}.pdf", files.PDF, content)


async def remit(request: PageRequest) -> PageResponse:
    """Posts a remittance, or requests an approval."""
    try:
        form = request.form
        currency = form.required("currency", at_most=3)
        if currency not in DECIMALS:
            raise BadForm(errors={"currency": "Enter an ISO currency code, such as NGN."})
        change = TaxRemittance(
            form.required("tax"),
            form.money("amount", currency),
            form.text("reference", at_most=REFERENCE_LENGTH_MAX),
            trx_id=form.required("once"),
        )
        await changes.check(request.approvals, change)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change, change.reference)
    except Refusal as refusal:
        values = await _values(request, await _returns(request))
        return request.form_with_errors(TEMPLATE, refusal, **values)
    return responses.done_or_asked(request, PAGE, result, "The remittance was posted.")


async def _values(request: PageRequest, found: list[TaxReturn]) -> dict[str, Any]:
    owed = await returns.balances(request.db)
    return {
        "returns": found,
        "not_final": returns.NOT_FINAL,
        "month": _month(request),
        "months": _months(),
        "owed": [(tax, Money(code, minor)) for (tax, code), minor in sorted(owed.items()) if minor],
        "taxes": [(tax, tax) for tax in sorted({tax for tax, _ in owed})],
        "once": provider_funds.new_id(),
    }


async def _returns(request: PageRequest) -> list[TaxReturn]:
    async with request.services.patient(LEDGER_SECONDS) as db:
        return await returns.of_month(db, _month(request))


def _month(request: PageRequest) -> date:
    """Returns the month that the query selects, by default the previous one."""
    known = _months()
    text = request.query.text("month")
    chosen = {f"{each:%Y-%m}": each for each in known}.get(text)
    if text and chosen is None:
        raise PageNotFound
    return chosen or known[1]


def _months() -> list[date]:
    """Returns this month and the months before, newest first."""
    found = [datetime.now(LAGOS).date().replace(day=1)]
    while len(found) < MONTHS:
        found.append((found[-1] - timedelta(days=1)).replace(day=1))
    return found


async def _in_one_page(rows: list[TaxReturn]) -> AsyncIterator[list[TaxReturn]]:
    yield rows
