"""`manilla ipn`: lists notifications to merchants and their deliveries, and resends them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import Limit, OfMerchant
from manilla.cli.output import (
    Json,
    as_row,
    as_rows,
    print_json,
    print_lines,
    printable,
    zoned_moment,
)
from manilla.kit.fields import Fields
from manilla.ledger import trx_ids
from manilla.ledger.transactions import TransactionNotFound
from manilla.notify import listing, queries, redeliver
from manilla.notify.listing import NotificationState
from manilla.notify.queries import DeliveryAttempt, Notification

app = typer.Typer(no_args_is_help=True)

NotificationId = Annotated[str, typer.Argument(metavar="ID", help="A notification id: msg_…")]

ANSWER_CHARACTERS_SHOWN = 500
COLUMNS = listing.FIELDS.select(
    "id created_at merchant_id environment event status trx_id state attempts url"
)
ATTEMPTS = Fields(
    DeliveryAttempt,
    answer=lambda attempt: (
        None if attempt.answer is None else attempt.answer.decode(errors="replace")
    ),
).select("number at headers status answer milliseconds error")

_ID = re.compile(r"msg_[0-9A-Z]{1,60}")
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@app.command("list")
def list_notifications(
    merchant: OfMerchant = None,
    status: Annotated[
        NotificationState | None, typer.Option("--status", help="The state of the delivery.")
    ] = None,
    trx: Annotated[
        str | None, typer.Option("--trx", metavar="TRX", help="Only for this transaction.")
    ] = None,
    limit: Limit = 100,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List notifications, newest first."""
    if trx is not None:
        merchant = _merchant_of(trx, merchant)
    run(data, lambda tools: _list(tools, merchant, status, trx, limit), as_json=as_json)


async def _list(
    tools: Tools, merchant: int | None, state: NotificationState | None, trx: str | None, limit: int
) -> None:
    found = await queries.notifications(
        tools.db, merchant_id=merchant, state=state, trx_id=trx, limit=limit
    )
    tools.print_rows(as_rows(COLUMNS, found), empty="There are no notifications.")


@command(app)
async def show(
    tools: Tools,
    notification_id: NotificationId,
    body: Annotated[
        bool, typer.Option("--body", help="Print only the body, byte for byte.")
    ] = False,
) -> None:
    """Show a notification, its exact body, and every delivery attempt."""
    found = await redeliver.find(tools.db, _checked(notification_id))
    history = await queries.attempts(tools.db, found.merchant_id, found.id)
    if body:
        typer.get_binary_stream("stdout").write(found.body)
    elif tools.as_json:
        print_json(_described(found, history))
    else:
        _print(found, history)


def read_moment(text: str) -> datetime:
    """Parses an ISO time, by default in UTC, or a duration before now, such as `2h`."""
    now = datetime.now(UTC)
    duration = _DURATION.fullmatch(text)
    try:
        if duration:
            return now - timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time: use 2h, 30m, 1d, or an ISO time such as 2026-01-02T03:04:05Z."
        ) from None
    if moment > now:
        raise typer.BadParameter(f"{text!r} is in the future.")
    return moment


@app.command("redeliver")
def redeliver_(
    notification_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A notification id: msg_…")
    ] = None,
    failed_since: Annotated[
        datetime | None,
        typer.Option(
            "--failed-since",
            parser=read_moment,
            metavar="T",
            help="All failed notifications since this time: 2h, 30m, 1d, or an ISO time.",
        ),
    ] = None,
    merchant: OfMerchant = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Resend one notification, or all failed notifications, with the same id and body."""
    if (notification_id is None) == (failed_since is None):
        raise typer.BadParameter("use either an ID or --failed-since.")
    if notification_id is not None:
        if merchant is not None:
            raise typer.BadParameter("--merchant can only be used with --failed-since.")
        run(data, lambda tools: _redeliver_one(tools, notification_id), as_json=as_json)
    elif failed_since is not None:
        run(data, lambda tools: _redeliver_failed(tools, failed_since, merchant), as_json=as_json)


async def _redeliver_one(tools: Tools, notification_id: str) -> None:
    sent = await redeliver.redeliver(tools.db, _checked(notification_id))
    tools.print_fields(as_row(COLUMNS, sent))


async def _redeliver_failed(tools: Tools, since: datetime, merchant: int | None) -> None:
    sent = await redeliver.redeliver_failed(tools.db, since, merchant)
    tools.print_fields({"since": since, "count": len(sent), "ids": sent})


def _merchant_of(trx_id: str, merchant: int | None) -> int:
    """Returns the id of the merchant that owns the transaction."""
    owner = trx_ids.merchant_of(trx_id)
    if owner is None:
        raise TransactionNotFound(f"{trx_id!r} is not a transaction id.")
    if merchant not in (None, owner):
        raise TransactionNotFound(f"{trx_id} does not belong to merchant {merchant}.")
    return owner


def _checked(notification_id: str) -> str:
    if not _ID.fullmatch(notification_id):
        raise redeliver.NotificationNotFound(f"There is no notification {notification_id!r}.")
    return notification_id


def _described(found: Notification, history: list[DeliveryAttempt]) -> dict[str, Any]:
    return {
        **as_row(COLUMNS, found),
        "decided_at": found.decided_at,
        "body": found.body.decode(),
        "history": as_rows(ATTEMPTS, history),
    }


def _print(found: Notification, history: list[DeliveryAttempt]) -> None:
    size = f"{len(found.body)} bytes"
    shown = {**as_row(COLUMNS, found), "decided_at": found.decided_at, "body": size}
    print_lines(shown)
    print(f"\n{printable(found.body.decode())}")
    if not history:
        print("\nNo attempts are stored.")
    for attempt in history:
        came = "no response" if attempt.status is None else f"HTTP {attempt.status}"
        error = f": {attempt.error}" if attempt.error and attempt.error != came else ""
        at, took = zoned_moment(attempt.at), f"{came} in {attempt.milliseconds} ms"
        print(f"\nattempt {attempt.number}  {at}  {took}{error}")
        for name, value in attempt.headers.items():
            print(f"    {name}: {value}")
        if attempt.answer:
            answer = attempt.answer.decode(errors="replace")[:ANSWER_CHARACTERS_SHOWN]
            print(f"    response: {printable(answer)}")
