"""`manilla job`: jobs that failed after their last attempt."""

from typing import Annotated

import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, as_row, print_fields, print_rows
from manilla.kit.jobs import failed
from manilla.kit.jobs.failed import FailedJob, FailedJobFilter
from manilla.kit.listing import in_pages
from manilla.platform import work

app = typer.Typer(no_args_is_help=True)

COLUMNS = failed.FIELDS.select("merchant_id kind subject failures parked_at last_error")


@app.command("list")
def list_jobs(as_json: Json = False, data: Data = None) -> None:
    """List failed jobs with the last error, newest first."""

    async def command(tools: Tools) -> list[FailedJob]:
        return [
            job
            async for page in in_pages(failed.failed_jobs, tools.db, FailedJobFilter())
            for job in page
        ]

    rows = [as_row(COLUMNS, job) | {"merchant_id": job.merchant_id} for job in run(data, command)]
    print_rows(rows, as_json=as_json, empty="There are no failed jobs.")


@app.command()
def retry(
    merchant_id: Annotated[
        int, typer.Argument(metavar="MERCHANT", min=0, help="Merchant ID; 0 for none.")
    ],
    kind: Annotated[str, typer.Argument(metavar="KIND", help="For example transfer or notify.")],
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="The job's subject, as in `job list`.")
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Retry a failed job, with a full set of attempts."""

    async def command(tools: Tools) -> None:
        await work.retry(tools.db, merchant_id, kind, subject)

    run(data, command)
    print_fields({"merchant_id": merchant_id, "kind": kind, "subject": subject}, as_json=as_json)
