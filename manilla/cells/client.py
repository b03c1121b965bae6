"""Calls other cells: reads them with the tokens that they issued, and forwards webhooks."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from manilla.cells import registry
from manilla.cells.overview import CellOverview
from manilla.cells.registry import KnownCell
from manilla.cells.report import CellReport, EndlessReport, whole
from manilla.kit import time_limits
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.connection import HttpReply
from manilla.kit.http_client.errors import HttpError

ROUTES_PATH = "/cell/routes"
OVERVIEW_PATH = "/cell/overview"
BODY_BYTES_MAX = 4_000_000
ANSWER_BYTES_MAX = 10_000

# A webhook with this header was already forwarded once, and is never forwarded again.
FORWARDED = "x-manilla-forwarded"
# These headers belong to a single connection.
NOT_FORWARDED = frozenset(
    {b"host", b"connection", b"content-length", b"transfer-encoding", b"keep-alive", b"te"}
    | {b"trailer", b"upgrade", b"proxy-authorization", b"expect"}
    # Our HTTP client sets these headers itself.
    | {b"accept-encoding", b"accept", b"user-agent"}
)

Document = TypeVar("Document", bound=msgspec.Struct)


class CellUnreadable(Refusal):
    """Another cell cannot be read. The text says why, and contains nothing that the cell sent."""

    status, code = 502, "CELL_UNREADABLE"
    message = "The cell cannot be read."


class CellClient:
    def __init__(self, db: Database, keyring: Keyring, client: HttpClient) -> None:
        self._db = db
        self._keyring = keyring
        self._client = client

    async def routes(self, cell: KnownCell) -> CellReport:
        """Returns the whole report of another cell."""
        try:
            report = await whole(
                lambda after: self.get(cell, f"{ROUTES_PATH}?after={after}", CellReport)
            )
        except EndlessReport:
            raise CellUnreadable(f"{cell.name} sent a report without an end.") from None
        expected = (cell.name, cell.first_merchant, cell.last_merchant)
        if expected != (report.name, report.first_merchant, report.last_merchant):
            raise CellUnreadable(
                f"{cell.name} reports a name or range that this cell does not have for it."
            )
        return report

    async def overview(self, cell: KnownCell) -> CellOverview:
        found = await self.get(cell, OVERVIEW_PATH, CellOverview)
        if found.name != cell.name:
            raise CellUnreadable(f"{cell.name} responded as another cell.")
        return found

    async def forward_webhook(
        self, cell: KnownCell, path: str, headers: Mapping[bytes, list[bytes]], raw: bytes
    ) -> int:
        """Sends a provider's webhook to another cell unchanged, and returns the response's status.

        The other cell verifies the signature again, because it trusts no other cell.
        """
        assert cell.base_url is not None
        sent = {
            name.decode("latin-1"): values[0].decode("latin-1")
            for name, values in headers.items()
            if len(values) == 1 and name not in NOT_FORWARDED
        }
        reply = await self._call(
            cell, "POST", path, {**sent, FORWARDED: "1"}, body=raw, body_max=ANSWER_BYTES_MAX
        )
        return reply.status or 0

    async def get(self, cell: KnownCell, path: str, kind: type[Document]) -> Document:
        assert cell.base_url is not None
        token = await registry.token_for(self._db, self._keyring, cell.name)
        if token is None:
            raise CellUnreadable(
                f"{cell.name} cannot be queried without a token: run `manilla cell token` there,"
                f" and `manilla cell set {cell.name} --token -` here."
            )
        reply = await self._call(
            *(cell, "GET", path, {"Authorization": f"Bearer {token}"}), body_max=BODY_BYTES_MAX
        )
        if reply.status in (401, 403):
            raise CellUnreadable(
                f"{cell.name} does not accept the token of this cell: issue a new token there with"
                f" `manilla cell token`, and run `manilla cell set {cell.name} --token -` here."
            )
        if reply.status != 200:
            raise CellUnreadable(f"{cell.name} responded with status {reply.status}.")
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CellUnreadable(f"{cell.name} sent a response that cannot be read.") from None

    async def _call(
        self,
        cell: KnownCell,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: bytes | None = None,
        body_max: int,
    ) -> HttpReply:
        try:
            async with asyncio.timeout(time_limits.current.cell_seconds):
                return await self._client.request(
                    *(method, f"{cell.base_url}{path}"),
                    headers=headers,
                    body=body,
                    body_max=body_max,
                )
        except TimeoutError:
            raise CellUnreadable(
                f"{cell.name} did not respond in time at {cell.base_url}."
            ) from None
        except HttpError as error:
            raise CellUnreadable(f"{cell.name} does not respond at {cell.base_url}.") from error
