"""Lists failed jobs with their errors, and retries them."""

from urllib.parse import quote

import msgspec
from markupsafe import Markup

from manilla.console import list_pages
from manilla.kit.errors import Refusal
from manilla.kit.jobs import failed
from manilla.kit.jobs.failed import FailedJob, FailedJobFilter
from manilla.people.roles import Permission
from manilla.platform import failed_jobs
from manilla.web import lists, table_cells
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse

# Maps each job kind to the path of the page about the job's payout, refund or notification.
PATHS = {"transfer": "/payouts/", "refund": "/refunds/", "notify": "/notifications?q="}

COLUMNS = failed.FIELDS.select("merchant_id kind subject attempts failures parked_at last_error")


def _subject(request: PageRequest, row: FailedJob) -> Markup | str:
    if row.kind not in PATHS:
        return table_cells.text(row.subject)
    return table_cells.link(request, PATHS[row.kind] + quote(row.subject), row.subject)


def _retry(request: PageRequest, row: FailedJob) -> Markup:
    """Returns the HTML form with the button that retries a failed job."""
    fields = {
        "csrf": request.csrf,
        "merchant_id": row.merchant_id,
        "kind": row.kind,
        "subject": row.subject,
    }
    hidden = Markup("").join(
        Markup('<input type="hidden" name="{}" value="{}">').format(*pair)
        for pair in fields.items()
    )
    return Markup(
        '<form method="post" action="{}">{}<button class="btn btn-sm">Retry'
        '<span class="visually-hidden">: {} {}</span></button></form>'
    ).format(request.at("/jobs/retry"), hidden, row.kind, table_cells.text(row.subject))


LIST = RecordList(
    "failed_jobs",
    "job",
    list_pages.with_merchant(
        (
            time_column("Failed", "parked_at"),
            ListColumn("kind", "Job", lambda _, row: row.kind, place=Place.DETAIL),
            ListColumn("subject", "Subject", _subject, place=Place.NAME),
            ListColumn(
                "error",
                "Last error",
                lambda _, row: row.last_error or "Unknown",
                is_wide=True,
                place=Place.DETAIL,
            ),
            ListColumn(
                "failures",
                "Failures",
                lambda _, row: f"{row.failures} of {row.attempts}",
                is_number=True,
                place=Place.AMOUNT,
            ),
        )
    ),
    failed.failed_jobs,
    failed.totals,
)
RETRY = list_pages.with_merchant((ListColumn("retry", "Retry", _retry, place=Place.STATUS),))[0]


async def show(request: PageRequest) -> PageResponse:
    wanted = msgspec.structs.replace(
        lists.read_filter(request, FailedJobFilter, "kind"),
        merchant_id=list_pages.merchant(request),
    )
    columns = (*LIST.columns, RETRY) if request.may(Permission.SUPPORT_TOOLS) else LIST.columns
    shown = msgspec.structs.replace(LIST, columns=columns)
    filters = [ListFilter("kind", "Type")]
    return await list_pages.show(request, shown, "jobs.html", COLUMNS, [], wanted, filters)


async def retry(request: PageRequest) -> PageResponse:
    given = request.form
    try:
        merchant_id, kind = given.integer("merchant_id"), given.required("kind")
        await failed_jobs.retry(request.db, merchant_id, kind, given.required("subject"))
    except Refusal as refusal:
        return request.redirect_with_errors("/jobs", refusal)
    return request.redirect("/jobs", done="The job is running again.")
