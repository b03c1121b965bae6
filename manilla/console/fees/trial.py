"""Pages that compute prices of stored transactions: a plan to try, and providers' expected fees."""

from collections.abc import AsyncIterator
from typing import Any

from manilla.console.fees import margin
from manilla.kit.errors import Refusal
from manilla.kit.fields import Columns, insert_after
from manilla.margin import plans, runs
from manilla.margin.figures import MarginFilter
from manilla.margin.runs import ComparedWay, Run, RunLimit
from manilla.merchants import roster
from manilla.prices import store
from manilla.prices.price import PlanVersion
from manilla.web import exports
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

TEMPLATE = "margin_try.html"
PLAN_LENGTH_MAX = 20_000
LIMIT = RunLimit(transactions=50_000, seconds=8)
TOO_MANY = "The period has too many transactions for a page. Use a shorter one, or the command."


async def show_form(request: PageRequest) -> PageResponse:
    return request.page(TEMPLATE, run=None, **await _form(request, margin.read_filter(request)))


async def run(request: PageRequest) -> PageResponse:
    """Runs a plan over the transactions of a period. Nothing is written, so a standby can serve."""
    request.uses_primary = False
    wanted = margin.read_filter(request)
    about, text = (
        await _form(request, wanted),
        request.form.text("text", at_most=PLAN_LENGTH_MAX),
    )
    try:
        version = plans.read(text) if text else await _version(request)
    except Refusal as refusal:
        return request.form_with_errors(TEMPLATE, refusal, run=None, **about)
    found = await plans.try_plan(request.reads, wanted, version, LIMIT)
    names = await roster.names(request.reads, [row.merchant_id or 0 for row in found.rows])
    if exports.is_wanted(request):
        columns = insert_after(runs.TRIED, "merchant_id", "merchant", margin.merchant_name(names))
        return _send(request, "plan", columns, found)
    return request.page(TEMPLATE, run=found, merchants=names, page_given=request.form, **about)


async def show_fees(request: PageRequest) -> PageResponse:
    """Compares what providers took with what they should have taken by their plans."""
    wanted, prices = margin.read_filter(request), await store.load(request.db)
    found = await plans.provider_fees(request.reads, wanted, prices.versions, LIMIT)
    if exports.is_wanted(request):
        return _send(request, "provider-fees", runs.FEES, found)
    return request.page(
        "margin_fees.html",
        run=found,
        plan_prefix=plans.PROVIDER_PLAN,
        **margin.common(request, wanted),
    )


def _send(
    request: PageRequest, name: str, columns: Columns[ComparedWay], found: Run
) -> exports.ExportFile:
    if not found.is_complete:
        raise BadForm(errors={"until": TOO_MANY})

    async def pages() -> AsyncIterator[list[ComparedWay]]:
        yield found.rows

    return exports.send(request, name, columns, pages())


async def _form(request: PageRequest, wanted: MarginFilter) -> dict[str, Any]:
    versions = (await store.load(request.db)).versions
    return {
        "plans": [each for each in reversed(versions) if not each.merchant_id],
        **margin.common(request, wanted),
    }


async def _version(request: PageRequest) -> PlanVersion:
    """Returns the chosen version of a plan."""
    name, _, number = request.form.required("plan").rpartition("/")
    for each in (await store.load(request.db)).versions:
        if (each.plan, str(each.version)) == (name, number) and not each.merchant_id:
            return each
    raise BadForm(errors={"plan": "Choose a plan, or paste one."})
