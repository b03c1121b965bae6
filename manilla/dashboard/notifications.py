"""Pages for the merchant's notifications: the list, delivery attempts, and redelivery."""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.dashboard.developers.notification_test import TEST
from manilla.dashboard.references import transactions_named
from manilla.dashboard.webhooks import signature_check
from manilla.notify import listing, queries
from manilla.notify import redeliver as redelivery
from manilla.notify.listing import NotificationFilter, NotificationState
from manilla.notify.queries import Notification
from manilla.web import lists, record_list
from manilla.web.columns import notifications as notification_columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListFilter, RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

EVENTS = ("payment", "payout", "refund", TEST)
REDELIVER_DAYS_MAX = 30

COLUMNS = listing.FIELDS.select(
    {
        "Time": "created_at",
        "Id": "id",
        "Event": "event",
        "Status": "status",
        "Transaction": "trx_id",
        "URL": "url",
        "Delivery": "state",
        "Attempts": "attempts",
        "Completed": "decided_at",
    }
)


LIST = RecordList(
    "notifications",
    "notification",
    notification_columns.COLUMNS,
    listing.notifications,
    listing.totals,
)


async def show(request: PageRequest) -> PageResponse:
    wanted = msgspec.structs.replace(
        lists.read_filter(request, NotificationFilter, "state", "event"),
        named=await transactions_named(request),
    )
    filters = [
        ListFilter("state", "Delivery", record_list.choices(list(NotificationState))),
        ListFilter("event", "Event", record_list.choices(EVENTS)),
    ]
    since = datetime.now(UTC) - timedelta(days=REDELIVER_DAYS_MAX)
    return await LIST.show(
        *(request, "notifications.html", COLUMNS, [request.tenant], wanted, filters),
        failed=await listing.count_failed(request.db, request.tenant, since),
        blocked=await queries.blocked_urls(request.db, request.merchant_id, request.environment),
    )


async def show_one(request: PageRequest) -> PageResponse:
    found = await _mine(request)
    attempts = await queries.attempts(request.db, request.merchant_id, found.id)
    mark = f"{found.state}-{len(attempts)}"
    if (response := request.poll_response(mark)) is not None:
        return response
    is_test = found.event.partition(".")[0] == TEST
    return request.page(
        "notification.html",
        notification=found,
        attempts=attempts,
        mark=mark,
        is_test=is_test,
        signature_check=signature_check.of(found.id, found.body, attempts),
    )


async def redeliver(request: PageRequest) -> PageResponse:
    found = await _mine(request)
    await redelivery.redeliver(request.db, found.id)
    done = "The notification is being sent again under the same id."
    return request.redirect(f"~/notifications/{found.id}", done=done)


async def redeliver_failed(request: PageRequest) -> PageResponse:
    days = min(request.form.integer("days"), REDELIVER_DAYS_MAX)
    since = datetime.now(UTC) - timedelta(days=days)
    sent = await redelivery.redeliver_failed(
        request.db, since, request.merchant_id, request.environment
    )
    done = f"Resending {len(sent)} notification{'' if len(sent) == 1 else 's'}."
    return request.redirect("~/notifications", done=done)


async def _mine(request: PageRequest) -> Notification:
    found = await queries.notification(request.db, request.parameter("notification"))
    if found is None or (found.merchant_id, found.environment) != (
        request.merchant_id,
        request.environment,
    ):
        raise PageNotFound
    return found
