"""What merchants must see at the end: every event once, in order, and no transfer twice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.simulation.facts import Notice, ProviderObject
from tests.simulation.model import FAILED

# A worker records a delivery at most this long after the receiver got it, even on a busy machine.
# If the worker is killed in that time, another one may deliver the same bytes again.
RECORDED_SECONDS = 60.0


def find_differences(followed: Sequence[Notice], listed: Sequence[Notice]) -> Iterator[str]:
    """Compares the events that a merchant has followed with the whole list of events."""
    if followed == listed:
        return
    ids = [event.id for event in followed]
    missing = [event.id for event in listed if event.id not in set(ids)]
    unlisted = set(ids) - {event.id for event in listed}
    repeated = len(ids) - len(set(ids))
    yield (
        f"the followed events differ from the list of {len(listed)} events: {len(missing)}"
        f" missing ({missing[:3]}), {len(unlisted)} not listed, {repeated} repeated"
    )


def find_disorder(received: Iterable[Notice], listed: Sequence[Notice]) -> Iterator[str]:
    """The events of each transaction first arrive in the order of the list."""
    places = {event.id: place for place, event in enumerate(listed)}
    newest: dict[str, int] = {}
    seen: set[str] = set()
    for notice in received:
        if notice.id in seen or notice.id not in places:
            continue
        seen.add(notice.id)
        place = places[notice.id]
        if place < newest.get(notice.trx_id, -1):
            yield f"{notice.message} ({notice.id}) arrived after a later event of {notice.trx_id}"
        newest[notice.trx_id] = place


def count_missing(received: Iterable[Notice], listed: Iterable[Notice]) -> int:
    """Returns the number of listed events that did not arrive."""
    arrived = {notice.id for notice in received}
    return sum(event.id not in arrived for event in listed)


def count_repeats(
    moments: Mapping[tuple[str, str], Sequence[float]], excuses: Sequence[float]
) -> tuple[int, int]:
    """Returns the numbers of repeated deliveries that are allowed, and that are not.

    A delivery may be repeated if a process that delivers was killed before it could record the
    delivery. `excuses` contains these moments.
    """
    allowed = wrong = 0
    for arrivals in moments.values():
        for earlier in arrivals[:-1]:
            is_excused = any(0 <= excuse - earlier <= RECORDED_SECONDS for excuse in excuses)
            allowed, wrong = allowed + is_excused, wrong + (not is_excused)
    return allowed, wrong


def find_doubled(transfers: Iterable[ProviderObject]) -> list[str]:
    """Returns the references that reached the providers more than once.

    A transfer that failed may be sent again, through another provider.
    """
    doubled: list[str] = []
    live: set[str] = set()
    for transfer in transfers:
        reference = transfer.reference.upper()
        if transfer.duplicates or (transfer.status != FAILED and reference in live):
            doubled.append(reference)
        if transfer.status != FAILED:
            live.add(reference)
    return doubled
