"""Lists and answers chargebacks at Flutterwave. Amounts are in naira.

Flutterwave has no query for one chargeback, and a list has only chargebacks of one status. To find
a chargeback, the adapter searches the lists of all statuses.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manilla.providers import port, reading, replies, uploads
from manilla.providers.dispute_replies import NO_ID, is_id, lookup_after_error, page, rejection
from manilla.providers.kinds.flutterwave.answers import LAGOS
from manilla.providers.port import Answer, DisputeState, Done, Refused, Unknown
from manilla.providers.port import ReportedDisputeStatus as Status
from manilla.providers.reading import Malformed
from manilla.providers.replies import Reply
from manilla.providers.wire import Wire

PATH = "/v3/chargebacks"
CURRENCY = "NGN"  # chargebacks have no currency, so only those in naira are requested
# In the order in which a chargeback moves through them, so that one that moves during a search is
# found later in the same search.
STATUSES = {
    "initiated": Status.NEEDS_RESPONSE,
    "declined": Status.SUBMITTED,
    "accepted": Status.ACCEPTED,
    "won": Status.WON,
    "lost": Status.LOST,
}
SEARCHED_PAGES_MAX = 20  # for each status
KNOWN_MAX = 10_000
COMMENT_LENGTH_MAX = 500  # our own limit, because Flutterwave documents none
DEFAULT_COMMENT = {True: "The merchant accepts the chargeback.", False: "The merchant contests it."}

NOT_LISTED = Unknown("Flutterwave lists no chargeback with this id", needs_lookup=True)
UNCLEAR = Unknown("Flutterwave's list has unknown values for it", needs_lookup=True)
TOO_MANY = Unknown("there are too many chargebacks to search", needs_lookup=True)
ONE_FILE = rejection("Flutterwave accepts only one file.")
NO_PARTS = rejection("Flutterwave only accepts a chargeback as a whole.")
PROOF_NEEDED = rejection("Flutterwave needs a file with proof to contest a chargeback.")


class FlutterwaveChargebacks:
    can_list = True
    files_max = 1
    needs_file = True

    def __init__(self, pay_in: Wire) -> None:
        self._pay_in = pay_in
        # Maps a chargeback to its transaction, by which Flutterwave selects chargebacks.
        self._transactions: dict[str, str] = {}

    def evidence_fields(self, category: str) -> tuple[port.EvidenceField, ...]:
        del category
        return ()

    async def listed(
        self, since: datetime, until: datetime, start: str | None = None
    ) -> Answer[port.DisputePage]:
        """Lists the chargebacks of one status after the other. `start` is a status and a page."""
        word, _, number = (start or f"{next(iter(STATUSES))}:1").partition(":")
        # Flutterwave selects by days, in a time zone that is not documented.
        day = timedelta(days=1)
        period = {"from": _day(since - day), "to": _day(until + day)}
        found = await self._page(word, int(number), period)
        if not isinstance(found, Done) or found.value.next is not None:
            return found
        words = list(STATUSES)
        following = words[words.index(word) + 1 :]
        next_start = f"{following[0]}:1" if following else None
        return Done(msgspec.structs.replace(found.value, next=next_start))

    async def _page(
        self, word: str, number: int, selection: dict[str, str]
    ) -> Answer[port.DisputePage]:
        def read(reply: Reply) -> Answer[port.DisputePage]:
            meta = reply.document.get("meta")
            return replies.require_success(reply, lambda data: self._read(data, meta, word, number))

        query = {"status": word, "currency": CURRENCY, **selection, "page": str(number)}
        return await self._pay_in.call("GET", PATH, read, query=query)

    def _read(self, data: Any, meta: Any, word: str, number: int) -> port.DisputePage:
        is_last = not data or _is_last(meta, number)
        found = page(data, _state_of, None if is_last else f"{word}:{number + 1}")
        for state in found.disputes:
            if state.charge_provider_reference is not None:
                self._remember(state.provider_reference, state.charge_provider_reference)
        return found

    def _remember(self, reference: str, transaction: str) -> None:
        if len(self._transactions) >= KNOWN_MAX:
            del self._transactions[next(iter(self._transactions))]
        self._transactions[reference] = transaction

    async def state(self, provider_reference: str) -> Answer[DisputeState]:
        """Searches for the chargeback.

        A chargeback that is not found may have changed its status during the search.
        """
        if not is_id(provider_reference):
            return NO_ID
        transaction = self._transactions.get(provider_reference)
        selection = {} if transaction is None else {"id": transaction}
        for word in STATUSES:
            found = await self._find(provider_reference, word, selection)
            if found is not None:
                return found
        return NOT_LISTED

    async def _find(
        self, reference: str, word: str, selection: dict[str, str]
    ) -> Answer[DisputeState] | None:
        for number in range(1, SEARCHED_PAGES_MAX + 1):
            listed = await self._page(word, number, selection)
            if not isinstance(listed, Done):
                return listed
            for state in listed.value.disputes:
                if state.provider_reference == reference:
                    return Done(state)
            if reference in listed.value.unclear:
                return UNCLEAR
            if listed.value.next is None:
                return None
        return TOO_MANY

    async def upload(self, provider_reference: str, file: port.EvidenceFile) -> Answer[str]:
        """Uploads a file. Flutterwave returns its URL, and does not say to which dispute."""
        del provider_reference
        problem = uploads.problem_of(file)
        if problem is not None:
            return problem
        return await self._pay_in.call(
            "POST",
            "/v3/upload_image",
            lambda reply: replies.require_success(
                reply, lambda data: reading.web_address({"data": data}, "data")
            ),
            content=uploads.form("image", file),
        )

    async def answer(self, answer: port.DisputeAnswer) -> Answer[DisputeState]:
        """Accepts or declines the whole chargeback. Flutterwave documents no errors."""
        if len(answer.files) > self.files_max:
            return ONE_FILE
        if not answer.is_accepted and not answer.files:
            return PROOF_NEEDED
        current = await self.state(answer.provider_reference)
        if not isinstance(current, Done):
            return _unsent(current)
        if current.value.status is not Status.NEEDS_RESPONSE:
            return current
        if answer.is_accepted and answer.amount != current.value.amount:
            return NO_PARTS
        body = {
            "action": "accept" if answer.is_accepted else "decline",
            "comment": (answer.text or DEFAULT_COMMENT[answer.is_accepted])[:COMMENT_LENGTH_MAX],
            **({"proof": answer.files[0]} if answer.files else {}),
        }
        reference = answer.provider_reference
        return await self._pay_in.call(
            "PUT", f"{PATH}/{reference}", lambda reply: _answered(reply, reference), body=body
        )


def _answered(reply: Reply, reference: str) -> Answer[DisputeState]:
    found = replies.require_success(reply, lambda data: _state_of(data, reference))
    return lookup_after_error(reply, found)


def _unsent(current: Refused | Unknown) -> Refused | Unknown:
    """Marks the result of a search before an answer: the answer itself was not sent."""
    is_unknown = isinstance(current, Unknown)
    return msgspec.structs.replace(current, never_sent=True) if is_unknown else current


def _is_last(meta: Any, number: int) -> bool:
    """Returns True on the last page. Rejects another page than the one that was requested."""
    info = reading.field(meta, "page_info")
    current, total = (
        int(reading.id_number(info, each)) for each in ("current_page", "total_pages")
    )
    if current != number:
        raise Malformed("current_page is another page")
    return number >= total


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def _state_of(data: Any, reference: str) -> DisputeState:
    if reading.id_number(data, "id") != reference:
        raise Malformed("id belongs to another chargeback")
    amount = reading.unsigned_money(data, "amount", CURRENCY)
    if amount.minor == 0 or data.get("currency") not in (None, CURRENCY):
        raise Malformed("the disputed amount is missing")
    return DisputeState(
        provider_reference=reference,
        status=reading.one_of(STATUSES, data, "status"),
        charge_reference=reading.optional_text(data, "tx_ref") or None,
        charge_provider_reference=reading.optional_id(data, "transaction_id"),
        amount=amount,
        stage=reading.optional_text(data, "stage"),
        reason=reading.optional_text(data, "comment"),
        opened_at=reading.readable_moment(data, "created_at", LAGOS),
        respond_by=reading.readable_moment(data, "due_date", LAGOS),
    )
