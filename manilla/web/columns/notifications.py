"""The columns of the notification lists in the dashboard and the console."""

from markupsafe import Markup

from manilla.notify.queries import Notification
from manilla.people.roles import Realm
from manilla.web import table_cells
from manilla.web.display import badge, title
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, Place, time_column


def _event(request: PageRequest, row: Notification) -> Markup:
    is_console = request.realm is Realm.CONSOLE
    path = f"/notifications/{row.id}" if is_console else f"~/notifications/{row.id}"
    return table_cells.link(request, path, f"{title(row.event)}, {row.status}")


COLUMNS = (
    time_column("Created", "created_at"),
    ListColumn("event", "Event", _event, place=Place.NAME),
    ListColumn(
        "transaction",
        "Transaction",
        lambda _, row: table_cells.identifier(row.trx_id),
        place=Place.ASIDE,
    ),
    ListColumn("delivery", "Delivery", lambda _, row: badge(row.state), place=Place.STATUS),
    ListColumn("attempts", "Attempts", lambda _, row: row.attempts, is_default=False),
    ListColumn("url", "To", lambda _, row: table_cells.text(row.url.removeprefix("https://"))),
    ListColumn(
        "id", "Notification ID", lambda _, row: table_cells.identifier(row.id), is_default=False
    ),
)
