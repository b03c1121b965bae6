"""Interprets providers' responses about disputes, where the providers do not differ."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from manilla.providers import reading, replies
from manilla.providers.port import Answer, DisputePage, DisputeState, RefusalCode, Refused, Unknown
from manilla.providers.port import ReportedDisputeStatus as Status
from manilla.providers.reading import Malformed
from manilla.providers.replies import Read, Reply

Value = TypeVar("Value")

NO_ID = Unknown(
    "the provider's ids of disputes have only digits", never_sent=True, needs_lookup=True
)


def is_id(provider_reference: str) -> bool:
    return provider_reference.isascii() and provider_reference.isdigit()


def find_state(
    provider_reference: str, is_missing: Callable[[Reply], bool]
) -> Callable[[Reply, Read[DisputeState]], Answer[DisputeState]]:
    """Returns a function that interprets the response to a status query.

    A person must look at a dispute that the provider reports with unknown values.
    """
    missing = DisputeState(provider_reference=provider_reference, status=Status.NOT_FOUND)
    decide = replies.found_or(missing, is_missing)

    def decide_state(reply: Reply, read: Read[DisputeState]) -> Answer[DisputeState]:
        try:
            return decide(reply, read)
        except Malformed as error:
            return Unknown(f"unexpected answer: {error}", needs_lookup=True)

    return decide_state


def rejection(guidance: str) -> Refused:
    return Refused(RefusalCode.DISPUTE_ANSWER_REJECTED, guidance)


def page(data: Any, read: Callable[[Any, str], DisputeState], following: str | None) -> DisputePage:
    """Parses a page of a list. `read` parses a dispute with this id, or raises Malformed.

    A dispute that cannot be interpreted is reported, and does not hide the others.
    """
    found: list[DisputeState] = []
    unclear: list[str] = []
    for each in reading.items(data):
        reference = reading.id_number(each, "id")
        try:
            found.append(read(each, reference))
        except Malformed:
            unclear.append(reference)
    return DisputePage(found, following, tuple(unclear))


def lookup_after_error(reply: Reply, found: Answer[Value]) -> Answer[Value]:
    """Marks an error of the provider that is not a final rejection: a person must look at it."""
    is_error = 400 <= reply.status < 500 and isinstance(found, Unknown)
    return msgspec.structs.replace(found, needs_lookup=True) if is_error else found
