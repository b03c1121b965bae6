"""The endpoint that lists a merchant's events."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import NO_TIME
from manilla.api.lists import Cursors, ListQuery
from manilla.api.refusals import ValidationFailed
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.listing import Moment, read_cursor
from manilla.kit.texts import CHECK_TAG
from manilla.ledger.transaction_lists import EARLIEST, LATEST
from manilla.merchants.rights import Right
from manilla.notify import notification_ids
from manilla.notify.events import listing
from manilla.notify.events.kinds import EVENT_TYPES, EventType
from manilla.notify.events.listing import EventFilter, EventItem, EventReader, Position
from manilla.notify.events.waiting import EventWaiting

PATH = "/api/v1/events"
WAIT_SECONDS_MAX = 30
NO_EVENT = "There is no such event. Use the id of an event of this environment, or a time."


def _check_since(text: str) -> str | None:
    is_valid = notification_ids.merchant_of(text) is not None or _moment(text) is not None
    return None if is_valid else f"{NO_TIME} Or the id of an event."


def _check_type(text: str) -> str | None:
    return None if text in EVENT_TYPES else f"Expected one of {', '.join(EVENT_TYPES)}."


class EventsQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: Annotated[str, Meta(extra={CHECK_TAG: _check_since})] | None = None
    type: Annotated[str, Meta(extra={CHECK_TAG: _check_type})] | None = None
    wait: Annotated[int, Meta(ge=0, le=WAIT_SECONDS_MAX)] = 0


class EventList(Struct, frozen=True):
    data: list[EventItem]
    next_cursor: str | None


def endpoints(db: Database, keyring: Keyring) -> list[Endpoint]:
    cursors = Cursors(keyring, PATH)
    waiting = EventWaiting(db)

    async def list_events(call: Call) -> EventList:
        query: EventsQuery = call.query
        tenant = call.tenant
        wanted = EventFilter(_type(query.type), _moment(query.since))
        after = read_cursor(Position, cursors.read(call))
        if after is None and query.since is not None and wanted.since is None:
            after = await listing.position_of(db, tenant, query.since)
            if after is None:
                raise ValidationFailed(errors={"since": NO_EVENT})
        found = await listing.page(db, tenant, wanted, after, query.limit)
        if not found.rows and found.next is None and query.wait:
            await waiting.wait(EventReader(tenant, wanted, after), query.wait)
            await call.check_again()
            found = await listing.page(db, tenant, wanted, after, query.limit)
        return EventList(found.rows, cursors.write(call, found.next))

    return [
        Endpoint(
            method="GET",
            path=PATH,
            summary="List events",
            description="Lists the status changes of your transactions, oldest first, each with "
            "the exact body of its notification.",
            right=Right.READ,
            answers=(EventList,),
            use_case=list_events,
            query=EventsQuery,
        ),
    ]


def _type(text: str | None) -> EventType | None:
    return None if text is None else EventType(text)


def _moment(text: str | None) -> datetime | None:
    """Parses a time. Returns None if the text is not a time but, for example, an event id."""
    try:
        moment = None if text is None else msgspec.convert(text, Moment)
        return None if moment is None else min(max(moment, EARLIEST), LATEST)
    except msgspec.ValidationError:
        return None
