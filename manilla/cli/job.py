"""`manilla job`: lists and retries jobs that have used all their attempts."""

from typing import Annotated

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.output import as_row
from manilla.kit.jobs import failed
from manilla.kit.jobs.failed import FailedJobFilter
from manilla.kit.listing import in_pages
from manilla.platform import failed_jobs

app = typer.Typer(no_args_is_help=True)

COLUMNS = failed.FIELDS.select("merchant_id kind subject failures parked_at last_error")


@command(app, "list")
async def list_jobs(tools: Tools) -> None:
    """List failed jobs, each with its last error, newest first."""
    rows = [
        as_row(COLUMNS, job) | {"merchant_id": job.merchant_id}
        async for page in in_pages(failed.failed_jobs, tools.db, FailedJobFilter())
        for job in page
    ]
    tools.print_rows(rows, empty="There are no failed jobs.")


@command(app)
async def retry(
    tools: Tools,
    merchant_id: Annotated[
        int,
        typer.Argument(
            metavar="MERCHANT", min=0, help="Merchant ID, or 0 if the job has no merchant."
        ),
    ],
    kind: Annotated[str, typer.Argument(metavar="KIND", help="For example transfer or notify.")],
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="The job's subject, as shown by `job list`.")
    ],
) -> None:
    """Retry a failed job. The job gets all its attempts again."""
    await failed_jobs.retry(tools.db, merchant_id, kind, subject)
    tools.print_fields({"merchant_id": merchant_id, "kind": kind, "subject": subject})
