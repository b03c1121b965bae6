"""Lists failed jobs with their errors, and retries them."""

from functools import partial

from manilla.console import list_pages
from manilla.kit.errors import Refusal
from manilla.kit.jobs import failed
from manilla.kit.jobs.failed import FailedJobFilter
from manilla.platform import work
from manilla.web.page_request import PageRequest, PageResponse

# For each kind of job, the page that shows its subject.
PATHS = {"transfer": "/payouts/", "refund": "/refunds/", "notify": "/notifications?q="}

COLUMNS = failed.FIELDS.select("merchant_id kind subject attempts failures parked_at last_error")


async def show(request: PageRequest) -> PageResponse:
    kind, subject = request.query.text("kind"), request.query.text("q")
    wanted = FailedJobFilter(
        merchant_id=list_pages.merchant(request), kind=kind or None, search=subject or None
    )
    fetch = partial(failed.failed_jobs, request.db, wanted)
    return await list_pages.show(request, "jobs.html", "failed-jobs", COLUMNS, fetch, paths=PATHS)


async def retry(request: PageRequest) -> PageResponse:
    given = request.form
    try:
        merchant_id, kind = given.integer("merchant_id"), given.required("kind")
        await work.retry(request.db, merchant_id, kind, given.required("subject"))
    except Refusal as refusal:
        return request.redirect_with_errors("/jobs", refusal)
    return request.redirect("/jobs", done="The job will run again now.")
