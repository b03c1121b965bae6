"""Code that all list endpoints share: queries and pagination cursors."""

import hmac
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from manilla.api.endpoint import Call
from manilla.api.fields import Reference
from manilla.api.refusals import ValidationFailed
from manilla.kit import listing
from manilla.kit.crypto import Keyring
from manilla.kit.listing import BadCursor, Moment, Page
from manilla.kit.listing.sorting import SortOrder
from manilla.ledger import transaction_lists
from manilla.ledger.transaction_lists import EARLIEST, LATEST
from manilla.services import Services

LIMIT, LIMIT_MAX = 20, 100
BAD_CURSOR = (
    "Expected `next_cursor` of the previous page, with the same credentials and the same filters."
)
_SIGNATURE_BYTES = 16


# msgspec cannot declare the union of a list's item types, so this tag names the types.
ITEMS_TAG = "items"


def items(*kinds: type[Struct]) -> Meta:
    """Returns the type annotation of a list that contains items of these types."""
    return Meta(extra={ITEMS_TAG: kinds})


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = LIMIT
    cursor: str | None = None


class PeriodQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: Moment | None = field(name="from", default=None)
    until: Moment | None = field(name="to", default=None)  # exclusive

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        since, until = values.get("since"), values.get("until")
        if since is None or until is None or since <= until:
            return {}
        return {"from": "Expected a time that is not after `to`."}

    @property
    def period(self) -> tuple[datetime | None, datetime | None]:
        """The query's `from` and `to`, limited to the years that the platform supports."""
        return _limited(self.since), _limited(self.until)


class TransactionQuery(PeriodQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of a transaction list. Subclasses add `status`."""

    ref_trx: Reference | None = None


def _limited(moment: datetime | None) -> datetime | None:
    return None if moment is None else min(max(moment, EARLIEST), LATEST)


class Cursors:
    """Signs and verifies the cursors of one list.

    A cursor contains the key of a page's last row. The signature covers the merchant, environment,
    list and filters, so a cursor can neither be altered nor used elsewhere. It stays valid after a
    change of credentials, or of the master key if the previous master key is still configured.
    """

    def __init__(self, keyring: Keyring, path: str) -> None:
        self._keys, self._path = keyring.derive_all("list cursor"), path

    def read(self, call: Call) -> str | None:
        """Returns the request's cursor without its signature, or None for the first page."""
        text: str | None = call.query.cursor
        if text is None:
            return None
        try:
            raw = listing.decode(text)
        except BadCursor:
            raise _bad_cursor() from None
        signature, content = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        scope = self._scope(call)
        if not any(
            hmac.compare_digest(_sign(key, scope, content), signature) for key in self._keys
        ):
            raise _bad_cursor()
        return listing.encode(content)

    def write(self, call: Call, cursor: str | None) -> str | None:
        """Returns the signed cursor of the next page, or None if there is no next page."""
        if cursor is None:
            return None
        content = listing.decode(cursor)
        return listing.encode(_sign(self._keys[0], self._scope(call), content) + content)

    def _scope(self, call: Call) -> bytes:
        filters = msgspec.structs.asdict(call.query)
        for name in ("limit", "cursor", "wait"):  # query parameters that do not filter rows
            filters.pop(name, None)
        times = {name: m.timestamp() for name, m in filters.items() if isinstance(m, datetime)}
        caller = call.caller
        return msgspec.json.encode(
            (self._path, caller.merchant_id, caller.environment, filters | times)
        )


def _sign(key: bytes, scope: bytes, content: bytes) -> bytes:
    # JSON contains no NUL byte, so this byte can separate the two parts.
    return hmac.digest(key, scope + b"\0" + content, "sha256")[:_SIGNATURE_BYTES]


def _bad_cursor() -> ValidationFailed:
    return ValidationFailed(errors={"cursor": BAD_CURSOR})


class TransactionPages:
    """A merchant's payments, payouts or refunds in pages, newest first."""

    def __init__(
        self,
        services: Services,
        path: str,
        *,
        table: str,
        columns: str,
        statuses: Mapping[str, Sequence[str]],
    ) -> None:
        """`statuses` maps each value of the query's `status` to the stored statuses."""
        self._reads, self._reader = services.reads, services.reader
        self._table, self._columns = table, columns
        self._statuses = statuses
        self._cursors = Cursors(services.keyring, path)

    async def page(self, call: Call) -> tuple[list[Any], str | None]:
        """Returns a page's rows and the next page's cursor, which is None on the last page."""
        after = self._cursors.read(call)
        page = await self._shared(call, after) or await self._searched(call, after)
        return page.rows, self._cursors.write(call, page.next)

    async def _shared(self, call: Call, after: str | None) -> Page[Any] | None:
        """Loads the page in one SQL query for several requests. Returns None for filtered lists."""
        wanted = call.query
        if wanted.status or wanted.ref_trx is not None:
            return None
        since, until = wanted.period
        return await self._reader.newest(
            self._table,
            self._columns,
            call.tenant,
            since=since,
            until=until,
            after=after,
            limit=wanted.limit,
        )

    async def _searched(self, call: Call, after: str | None) -> Page[Any]:
        wanted = call.query
        since, until = wanted.period
        selected = transaction_lists.newest_first(
            self._table,
            self._columns,
            call.tenant,
            statuses=self._statuses[wanted.status] if wanted.status else None,
            ref_trx=wanted.ref_trx,
            since=since,
            until=until,
        )
        return await selected.page(
            self._reads.begin(), lambda record: record, SortOrder.NEWEST, after, wanted.limit
        )
