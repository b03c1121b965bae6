"""Notification pages for all merchants: the list, delivery attempts, and redelivery."""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.console import list_pages
from manilla.kit.errors import Refusal
from manilla.merchants import roster
from manilla.notify import listing, queries, redeliver
from manilla.notify.listing import NotificationFilter, NotificationState
from manilla.notify.queries import Notification
from manilla.web import lists, record_list
from manilla.web.columns import notifications as notification_columns
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListFilter, RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

FIELD_FORMAT = "%Y-%m-%dT%H:%M"  # the format of an HTML datetime-local input
STATES = (NotificationState.FAILED, NotificationState.WAITING, NotificationState.DELIVERED)

LIST = RecordList(
    "all_notifications",
    "notification",
    list_pages.with_merchant(notification_columns.COLUMNS),
    listing.notifications,
    listing.totals,
)
COLUMNS = listing.FIELDS.select(
    "id merchant_id environment event status trx_id url state attempts created_at decided_at"
)


async def show_all(request: PageRequest) -> PageResponse:
    state = list_pages.selection(request, "state", STATES)
    wanted = msgspec.structs.replace(
        lists.read_filter(request, NotificationFilter),
        state=None if state == list_pages.ALL else NotificationState(state),
    )
    states = record_list.choices([*STATES, list_pages.ALL])
    filters = [
        ListFilter("state", "Delivery", states, value=state),
        list_pages.environment_filter(),
    ]
    return await list_pages.show(
        *(request, LIST, "notifications.html", COLUMNS),
        *([list_pages.scope(request)], wanted, filters),
        a_day_ago=(datetime.now(lists.ZONE) - timedelta(days=1)).strftime(FIELD_FORMAT),
    )


async def show(request: PageRequest) -> PageResponse:
    db, found = request.db, await _notification(request)
    return request.page(
        "notification.html",
        notification=found,
        attempts=await queries.attempts(db, found.merchant_id, found.id),
        names=await roster.names(db, [found.merchant_id]),
    )


async def resend(request: PageRequest) -> PageResponse:
    found = await _notification(request)
    await redeliver.redeliver(request.db, found.id)
    done = "The notification is being sent again under the same id."
    return request.redirect(f"/notifications/{found.id}", done=done)


async def resend_failed(request: PageRequest) -> PageResponse:
    try:
        since, merchant_id = read_moment(request.form, "since"), list_pages.merchant(request)
        sent = await redeliver.redeliver_failed(request.db, since, merchant_id)
    except Refusal as refusal:
        return request.redirect_with_errors("/notifications", refusal)
    done = f"Resending {len(sent)} notification{'' if len(sent) == 1 else 's'}."
    return request.redirect("/notifications", done=done)


async def _notification(request: PageRequest) -> Notification:
    found = await queries.notification(request.db, request.parameter("notification"))
    if found is None:
        raise PageNotFound
    return found


def read_moment(given: Form, name: str) -> datetime:
    """Parses a form field that contains a Lagos time, and returns the time in UTC."""
    try:
        at = datetime.strptime(given.text(name), FIELD_FORMAT).replace(tzinfo=lists.ZONE)
        return at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadForm(errors={name: "Enter a date and a time."}) from None
