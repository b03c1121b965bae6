"""Reads Kora's balance history as a statement."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.kit.money import Money
from manilla.providers import reading, replies
from manilla.providers.kinds.kora import answers
from manilla.providers.port import Answer, LineKind, StatementLine, StatementPage
from manilla.providers.reading import Malformed
from manilla.providers.replies import Enveloped, Reply
from manilla.providers.wire import Wire

LINES_PER_PAGE = 100
# Kora does not document its time zone, which may be Lagos time.
# The requested period has an extra hour on both sides, so that it is always complete.
ZONE_DIFFERENCE = timedelta(hours=1)
SIGNS = {"credit": 1, "debit": -1}
# Kora documents only `chargeback`. The other values were found in its API and its dashboard.
SOURCES = {
    **dict.fromkeys(("pay-in", "payin", "payment", "charge"), LineKind.CHARGE),
    **dict.fromkeys(("payout", "disbursement", "transfer"), LineKind.TRANSFER),
    "refund": LineKind.REFUND,
    "chargeback": LineKind.DISPUTE,
    "fee": LineKind.FEE,
    "settlement": LineKind.SETTLEMENT,
}


def read_envelope(document: Mapping[str, Any]) -> Enveloped:
    """Parses the envelope. Kora's example page has only `has_more` and `data`."""
    if "status" not in document and isinstance(document.get("has_more"), bool):
        return Enveloped(True, "", document.get("data"))
    return answers.read_envelope(document)


async def page(
    pay_out: Wire, since: datetime, until: datetime, currency: str, start: str | None
) -> Answer[StatementPage]:
    def read(reply: Reply) -> Answer[StatementPage]:
        has_more = reply.document.get("has_more")
        return replies.require_success(reply, lambda data: _page(data, has_more, currency))

    query = {
        "currency": currency,
        "date_from": _time(since - ZONE_DIFFERENCE),
        "date_to": _time(until + ZONE_DIFFERENCE),
        "limit": str(LINES_PER_PAGE),
        **({"starting_after": start} if start else {}),
    }
    return await pay_out.call("GET", "/merchant/api/v1/balances/history", read, query=query)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d-%H-%M-%S")


def _page(data: Any, has_more: Any, currency: str) -> StatementPage:
    # In Kora's example, the list is a single object.
    listed = [data] if isinstance(data, dict) and data else reading.items(data)
    lines = [_line(each, currency) for each in listed]
    if has_more is True and not lines:
        raise Malformed("the page is empty, but there are more")
    is_last = has_more is False or not lines
    return StatementPage(lines, None if is_last else lines[-1].line_id)


def _line(data: Any, currency: str) -> StatementLine:
    if reading.currency(data, "currency") != currency:
        raise Malformed("the line is in another currency")
    source = reading.optional_text(data, "source").lower().replace("_", "-")
    return StatementLine(
        line_id=reading.text_or_number(data, "pointer"),
        booked_at=reading.required_moment(data, "date_created"),
        amount=_amount(data, currency),
        kind=SOURCES.get(source, LineKind.OTHER),
        # Kora does not document whether `source_reference` is its own reference or ours.
        reference=reading.optional_text(data, "source_reference") or None,
        description=reading.optional_text(data, "description"),
        balance_after=reading.optional_money(data, "balance_after", currency),
    )


def _amount(data: Any, currency: str) -> Money:
    """Returns the signed amount, which must equal the change in the balance."""
    size = reading.unsigned_money(data, "amount", currency)
    amount = Money(currency, reading.one_of(SIGNS, data, "direction") * size.minor)
    before = reading.optional_money(data, "balance_before", currency)
    after = reading.optional_money(data, "balance_after", currency)
    if before is not None and after is not None and after - before != amount:
        raise Malformed("amount is not the difference of the balances")
    return amount
