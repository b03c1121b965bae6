"""The merchant's notifications: their attempts, and resending."""

from datetime import UTC, datetime, timedelta

from manilla.dashboard.references import named
from manilla.ledger.scope import Tenant
from manilla.notify import listing, queries, redeliver
from manilla.notify.listing import NotificationFilter, NotificationState
from manilla.notify.queries import Notification
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web import exports, lists
from manilla.web.layout import NotHere
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page

EVENTS = ("payment", "payout", "refund")
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


class NotificationPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        path = "/{environment:str}/notifications"
        return [
            page(path, self.show, Permission.VIEW),
            form(path + "/redeliver-failed", self.redeliver_failed, Permission.CONFIGURE),
            page(path + "/{notification:str}", self.show_one, Permission.VIEW),
            form(path + "/{notification:str}/redeliver", self.redeliver, Permission.CONFIGURE),
        ]

    async def show(self, request: PageRequest) -> Answer:
        tenant = Tenant(request.merchant_id, request.environment)
        state, event = request.query.text("state"), request.query.text("event")
        wanted = NotificationFilter(
            state=NotificationState(state) if state in set(NotificationState) else None,
            event=event if event in EVENTS else None,
            since=lists.day(request.query, "since"),
            until=lists.day(request.query, "until", is_end=True),
            search=request.query.text("q") or None,
            named=await named(self._desk.db, tenant, request.query.text("q")),
        )
        if exports.is_wanted(request):
            pages = listing.all_notifications(self._desk.db, tenant, wanted)
            return exports.send(request, "notifications", COLUMNS, pages)
        found = await listing.notifications(
            self._desk.db, tenant, wanted, after=lists.after(request)
        )
        return request.page(
            "notifications.html",
            notifications=found.rows,
            listing=ListView(request, found.next),
            failed=await self._failed(tenant),
            blocked=await queries.blocked_urls(
                self._desk.db, request.merchant_id, request.environment
            ),
            states=[(each.value, each.title()) for each in NotificationState],
            events=[(each, each.title()) for each in EVENTS],
        )

    async def show_one(self, request: PageRequest) -> Answer:
        found = await self._mine(request)
        attempts = await queries.attempts(self._desk.db, request.merchant_id, found.id)
        mark = f"{found.state}-{len(attempts)}"
        if (news := request.watched(mark)) is not None:
            return news
        return request.page("notification.html", notification=found, attempts=attempts, mark=mark)

    async def redeliver(self, request: PageRequest) -> Answer:
        found = await self._mine(request)
        await redeliver.redeliver(self._desk.db, found.id)
        done = "The notification is being sent again under the same id."
        return request.redirect(f"~/notifications/{found.id}", done=done)

    async def redeliver_failed(self, request: PageRequest) -> Answer:
        days = min(request.form.whole("days"), REDELIVER_DAYS_MAX)
        since = datetime.now(UTC) - timedelta(days=days)
        sent = await redeliver.redeliver_failed(
            self._desk.db, since, request.merchant_id, request.environment
        )
        done = f"Resending {len(sent)} notification{'' if len(sent) == 1 else 's'}."
        return request.redirect("~/notifications", done=done)

    async def _failed(self, tenant: Tenant) -> int:
        """The number of failed notifications that can be sent again."""
        since = datetime.now(UTC) - timedelta(days=REDELIVER_DAYS_MAX)
        return await listing.count_failed(self._desk.db, tenant, since)

    async def _mine(self, request: PageRequest) -> Notification:
        found = await queries.notification(self._desk.db, request.parameter("notification"))
        if found is None or (found.merchant_id, found.environment) != (
            request.merchant_id,
            request.environment,
        ):
            raise NotHere
        return found
