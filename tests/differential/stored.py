"""The rows that a story has stored, without ids and times, so that two runs can be compared."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

# Maps each table to the columns that differ between two runs: random ids and secrets, and counters
# that all merchants share. Only whether they are set is compared. The same applies to all times.
TABLES: dict[str, tuple[str, ...]] = {
    "wallet": (),
    "payment": ("traceparent",),
    "charge": ("checkout_url", "account_number", "provider_reference"),
    "payout": (
        *("traceparent", "method_id", "provider_reference", "accepted_reference"),
        *("session_id", "bank_reference"),
    ),
    "payout_attempt": (),
    "refund": ("traceparent", "provider_reference"),
    "timeline": (),
    "notification": ("id", "xid", "epoch"),
    "operator_case": ("id",),
    "job": ("fence", "lease"),
    "webhook": ("digest", "body"),
}
# A posting and its entries are one row, because their numbers depend on the order of transactions.
POSTINGS = """
    SELECT p.environment, p.currency, p.kind, p.trx_id, p.reason, p.posted_at,
           (SELECT jsonb_agg(jsonb_build_array(e.account, e.amount_minor)
                             ORDER BY e.account, e.amount_minor)
              FROM entry e
             WHERE e.merchant_id = p.merchant_id AND e.posting_id = p.id) AS entries
      FROM posting p WHERE p.merchant_id = $1"""
CASE_EVENTS = """
    SELECT c.kind, c.reference, e.event, e.detail
      FROM case_event e JOIN operator_case c ON c.merchant_id = e.merchant_id AND c.id = e.case_id
     WHERE e.merchant_id = $1"""

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC|[+-]\d\d(:?\d\d)?))?")
_TRANSACTION = re.compile(r"\bTXN[0-9A-Z]{10,}")
_RANDOM = re.compile(
    r"\b\d{30}\b|\b[0-9a-f]{32,}\b|\b(evt|ntf|pl|ORDER|MACHINE|PAYOUT)[-_][0-9A-Za-z]{6,}"
)
_DIGEST = re.compile(r"\bsha256[:=][0-9A-Za-z+/=_-]{20,}")


class Stored:
    """Reads the rows of one merchant, and numbers its transactions in the order of their rows."""

    def __init__(self, db: Any, merchant_id: int) -> None:
        # `db` is a Database, whose module has another name in the older version.
        self._db = db
        self._merchant_id = merchant_id
        self._numbers: dict[str, str] = {}

    async def rows(self) -> list[str]:
        await self._number_transactions()
        found = []
        for table, random in TABLES.items():
            sql = f"SELECT * FROM {table} WHERE merchant_id = $1"
            found += [row async for row in self._of(table, sql, random)]
        found += [row async for row in self._of("posting", POSTINGS)]
        found += [row async for row in self._of("case_event", CASE_EVENTS)]
        return sorted(found)

    async def _number_transactions(self) -> None:
        for table in ("payment", "payout", "refund"):
            for record in await self._db.records(
                f"SELECT trx_id FROM {table} WHERE merchant_id = $1 ORDER BY created_at, trx_id",
                self._merchant_id,
            ):
                self._numbers[record["trx_id"]] = f"{table} {len(self._numbers)}"

    async def _of(self, table: str, sql: str, random: tuple[str, ...] = ()) -> AsyncIterator[str]:
        found = await self._db.records(
            f"SELECT to_jsonb(r) AS row FROM ({sql}) r", self._merchant_id
        )
        for record in found:
            row = record["row"]
            values = json.loads(row) if isinstance(row, str) else dict(row)
            if table == "notification":
                values["body"] = json.loads(bytes.fromhex(values["body"].removeprefix("\\x")))
            kept = {
                name: value is not None if name in random else self._plain(name, value)
                for name, value in values.items()
                # A version can add columns, which are null, zero or false in these stories.
                if name != "merchant_id" and value not in (None, 0, False)
            }
            yield f"{table} {json.dumps(kept, sort_keys=True)}"

    def _plain(self, name: str, value: Any) -> Any:
        match value:
            case dict():
                return {key: self._plain(key, each) for key, each in value.items()}
            case list():
                return [self._plain(name, each) for each in value]
            case str():
                return self._without_ids(value)
        if isinstance(value, int | float) and name in ("timestamp", "created", "attempts", "id"):
            return None
        return value

    def _without_ids(self, text: str) -> str:
        text = _TRANSACTION.sub(lambda found: self._number(found.group()), text)
        text = _DIGEST.sub("(digest)", _TIME.sub("(time)", text))
        return _RANDOM.sub("(random)", text)

    def _number(self, trx_id: str) -> str:
        # The references of charges and attempts begin with the transaction's id.
        for known, number in self._numbers.items():
            if trx_id.startswith(known):
                return number + trx_id[len(known) :]
        return "(unknown transaction)"
