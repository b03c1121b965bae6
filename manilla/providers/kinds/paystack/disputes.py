"""Lists and answers disputes at Paystack. Amounts are in kobo."""

from datetime import datetime
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import port, reading, replies, uploads
from manilla.providers.dispute_replies import (
    NO_ID,
    find_state,
    is_id,
    lookup_after_error,
    page,
    rejection,
)
from manilla.providers.kinds.paystack import answers
from manilla.providers.port import Answer, DisputeState, Done, RefusalCode, Refused, Unknown
from manilla.providers.port import ReportedDisputeStatus as Status
from manilla.providers.reading import Malformed
from manilla.providers.replies import Read, Reply
from manilla.providers.wire import Wire

Value = TypeVar("Value")

PER_PAGE = 100
TEXT_LENGTH_MAX = 1000  # our own limit, because Paystack documents none
PENDING, RESOLVED = "pending", "resolved"
STATUSES = {
    "awaiting-merchant-feedback": Status.NEEDS_RESPONSE,
    "awaiting-bank-feedback": Status.SUBMITTED,
}
# Paystack accepts a dispute that nobody answered: the merchant has lost it.
RESOLUTIONS = {
    "merchant-accepted": Status.ACCEPTED,
    "auto-accepted": Status.LOST,
    "declined": Status.WON,
}
CHANNELS = {
    "card": port.Channel.CARD,
    "bank_transfer": port.Channel.BANK_TRANSFER,
    "dedicated_nuban": port.Channel.BANK_TRANSFER,
    "ussd": port.Channel.USSD,
}
FRAUD = "fraud"
FRAUD_FIELDS = (
    port.EvidenceField("customer_email", "Customer's email address", is_required=True),
    port.EvidenceField("customer_name", "Customer's name", is_required=True),
    port.EvidenceField("customer_phone", "Customer's phone number", is_required=True),
    port.EvidenceField("service_details", "Product or service", is_required=True),
    port.EvidenceField("delivery_address", "Delivery address"),
    port.EvidenceField("delivery_date", "Delivery date (YYYY-MM-DD)"),
)
DEFAULT_TEXT = {True: "The merchant accepts the dispute.", False: "The merchant contests this."}

ONE_FILE = rejection("Paystack accepts only one file.")
NOTHING_ACCEPTED = rejection("The accepted amount must be more than 0.")


class PaystackDisputes:
    can_list = True
    files_max = 1
    needs_file = True

    def __init__(self, pay_in: Wire) -> None:
        self._pay_in = pay_in

    def evidence_fields(self, category: str) -> tuple[port.EvidenceField, ...]:
        return FRAUD_FIELDS if FRAUD in category.lower() else ()

    async def listed(
        self, since: datetime, until: datetime, start: str | None = None
    ) -> Answer[port.DisputePage]:
        """Lists the disputes that were opened in this period."""
        number = int(start or 1)

        def read(reply: Reply) -> Answer[port.DisputePage]:
            is_last = answers.page_count(reply.document.get("meta")) == number or not reply.data
            following = None if is_last else str(number + 1)
            return replies.require_success(reply, lambda data: page(data, _state_of, following))

        period = {"from": answers.utc_text(since), "to": answers.utc_text(until)}
        query = {**period, "perPage": str(PER_PAGE), "page": str(number)}
        return await self._pay_in.call("GET", "/dispute", read, query=query)

    async def state(self, provider_reference: str) -> Answer[DisputeState]:
        if not is_id(provider_reference):
            return NO_ID
        return await self._pay_in.get(
            f"/dispute/{provider_reference}",
            lambda data: _state_of(data, provider_reference),
            find_state(provider_reference, _says_dispute_is_unknown),
        )

    async def upload(self, provider_reference: str, file: port.EvidenceFile) -> Answer[str]:
        """Uploads a file. Paystack returns the URL for the upload, and the name of the file."""
        problem = uploads.problem_of(file) if is_id(provider_reference) else NO_ID
        if problem is not None:
            return problem
        place = await self._pay_in.get(
            f"/dispute/{provider_reference}/upload_url",
            _upload_place,
            _decide,
            query={"upload_filename": uploads.safe_name(file)},
        )
        if not isinstance(place, Done):
            return place
        url, name = place.value
        return await uploads.put(self._pay_in.api, url, file) or Done(name)

    async def answer(self, answer: port.DisputeAnswer) -> Answer[DisputeState]:
        problem = _problem_of(answer)
        if problem is not None:
            return problem
        evidence = await self._add_evidence(answer)
        if evidence is not None and not isinstance(evidence, Done):
            return evidence  # the dispute itself was not answered
        body: dict[str, Any] = {
            "resolution": "merchant-accepted" if answer.is_accepted else "declined",
            "message": (answer.text or DEFAULT_TEXT[answer.is_accepted])[:TEXT_LENGTH_MAX],
            "refund_amount": answer.amount.minor,
        }
        if answer.files:
            body["uploaded_filename"] = answer.files[0]
        if evidence is not None:
            body["evidence"] = evidence.value
        reference = answer.provider_reference
        return await self._pay_in.call(
            "PUT",
            f"/dispute/{reference}/resolve",
            lambda reply: _decide(reply, lambda data: _state_of(data, reference)),
            body=body,
        )

    async def _add_evidence(self, answer: port.DisputeAnswer) -> Answer[int] | None:
        """Adds the evidence that Paystack requires after a claim of fraud, and returns its id.

        Evidence alone decides nothing, so it can be added again.
        """
        names = [each.name for each in FRAUD_FIELDS]
        given = {
            name: answer.fields[name][:TEXT_LENGTH_MAX] for name in names if answer.fields.get(name)
        }
        if answer.is_accepted or not given:
            return None
        path = f"/dispute/{answer.provider_reference}/evidence"
        read = lambda data: int(reading.id_number(data, "id"))  # noqa: E731
        return await self._pay_in.post(path, given, read, _decide)


def _problem_of(answer: port.DisputeAnswer) -> Refused | Unknown | None:
    if not is_id(answer.provider_reference):
        return NO_ID
    if len(answer.files) > PaystackDisputes.files_max:
        return ONE_FILE
    return NOTHING_ACCEPTED if answer.is_accepted and answer.amount.minor <= 0 else None


def _decide(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to an answer or to evidence.

    Paystack has not acted on a request that it calls invalid, unless the dispute was answered
    before. A person must look at every other error.
    """
    found = replies.decide_documented(reply, read, _rejection)
    return lookup_after_error(reply, found)


def _rejection(reply: Reply) -> RefusalCode | None:
    is_answered = RESOLVED in reply.message.lower()
    is_final = answers.is_invalid(reply) and not is_answered
    return RefusalCode.DISPUTE_ANSWER_REJECTED if is_final else None


def _says_dispute_is_unknown(reply: Reply) -> bool:
    return replies.is_not_found(reply) and "dispute" in reply.message.lower()


def _upload_place(data: Any) -> tuple[str, str]:
    name = reading.text(data, "fileName")
    if name != data["fileName"]:
        raise Malformed("fileName is not a plain name")
    return reading.web_address(data, "signedUrl"), name


def _state_of(data: Any, provider_reference: str) -> DisputeState:
    if reading.id_number(data, "id") != provider_reference:
        raise Malformed("id belongs to another dispute")
    charge = data.get("transaction")
    messages = data.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    status = _status(data)
    return DisputeState(
        provider_reference=provider_reference,
        status=status,
        charge_reference=reading.optional_text(charge, "reference") or None,
        charge_provider_reference=_charge_id(charge),
        amount=_amount(data, charge, status),
        category=reading.optional_text(data, "category"),
        reason=reading.optional_text(first, "body"),
        opened_at=reading.readable_moment(data, "created_at")
        or reading.readable_moment(data, "createdAt"),
        respond_by=reading.readable_moment(data, "dueAt")
        or reading.readable_moment(data, "due_at"),
        channel=CHANNELS.get(reading.optional_text(charge, "channel")),
    )


def _status(data: Any) -> Status:
    word = reading.text(data, "status")
    if word == RESOLVED:
        return reading.one_of(RESOLUTIONS, data, "resolution")
    if word == PENDING and _is_new(data):
        return Status.NEEDS_RESPONSE
    return reading.one_of(STATUSES, data, "status")


def _is_new(data: Any) -> bool:
    """Returns True if the dispute never had another status than `pending`.

    Paystack's examples have this status before the merchant is asked. Later, it has no known
    meaning.
    """
    history = data.get("history")
    is_readable = isinstance(history, list) and bool(history)
    return is_readable and all(
        isinstance(each, dict) and each.get("status") == PENDING for each in history
    )


def _charge_id(charge: Any) -> str | None:
    return reading.optional_id(charge, "id") if isinstance(charge, dict) else None


def _amount(data: Any, charge: Any, status: Status) -> Money | None:
    """Returns the disputed amount, which is the whole charge if Paystack reports none.

    Contesting a dispute sets the amount to refund to 0. Then the disputed amount is not reported.
    """
    currency = reading.currency(data, "currency")
    amount = reading.optional_kobo(data, "refund_amount", currency)
    if amount is None and status is Status.NEEDS_RESPONSE:
        amount = reading.kobo(charge, "amount", currency)
    if amount is not None and amount.minor > 0:
        return amount
    if status is Status.NEEDS_RESPONSE:
        raise Malformed("the disputed amount is missing")
    return None


def _moment(data: Any, *names: str) -> datetime | None:
    """Parses the first of these times. Sources disagree on their names."""
    given = (reading.readable_moment(data, name) for name in names)
    return next((moment for moment in given if moment is not None), None)
