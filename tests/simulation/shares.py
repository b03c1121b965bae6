"""The part of the model about shares: whose they are, and what is taken back of them.

Like the rest of the model, it imports nothing from the product. All amounts are in minor units.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.simulation.divided import ShareRecord
from tests.simulation.facts import Kind, Moved, Observation, Operation

Messages = dict[tuple[int, str], dict[str, str]]  # by merchant and transaction


def operations_of(payment: Operation) -> Iterator[Operation]:
    """Yields that any part of its shares may be the receivers' instead of the owner's."""
    assert payment.split is not None
    for receiver, minor in payment.split.shares.items():
        key = Kind.SHARE, f"{payment.trx_id} for {receiver}"
        yield Operation(receiver, *key, credit=minor, credited=Moved.MAYBE)
        yield Operation(payment.merchant, *key, debit=minor, credit=minor)


def check(operations: Iterable[Operation], seen: Observation) -> Iterator[str]:
    """Each paid payment with a split has its shares, without what is taken back in proportion."""
    taken: dict[str, int] = defaultdict(int)
    paid: dict[str, Operation] = {}
    for operation in operations:
        status = seen.statuses.get(operation.trx_id)
        if operation.payment and status != "failed":
            taken[operation.payment.trx_id] += operation.amount
        if operation.split is not None and status == "success":
            paid[operation.trx_id] = operation
    for dispute in seen.disputes:
        taken[dispute.payment] += dispute.held
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for record in seen.shares:
        found[record.payment][record.merchant] = record.amount
        if record.payment not in paid:
            yield f"{record.payment} has the share {record.trx_id}, which nobody expects"
        else:
            yield from _check_one(record, paid[record.payment], taken[record.payment])
    for trx_id, payment in paid.items():
        assert payment.split is not None
        expected = {receiver: minor for receiver, minor in payment.split.shares.items() if minor}
        if found[trx_id] != expected:
            yield f"{trx_id} has the shares {found[trx_id]}, expected {expected}"


def _check_one(record: ShareRecord, payment: Operation, taken: int) -> Iterator[str]:
    assert payment.split is not None
    what = f"the share {record.trx_id} of {record.amount}"
    returned = record.amount * min(taken, payment.amount) // payment.amount
    if record.returned != returned:
        yield f"{what} has returned {record.returned}, expected {returned}"
    if record.withheld not in payment.split.held(record.kept):
        yield f"{what} holds {record.withheld} of {record.kept}: {payment.split}"
    if not 0 <= record.short <= record.returned:
        yield f"{what} is short of {record.short}, and has returned {record.returned}"


def withheld(seen: Observation) -> dict[int, int]:
    """Returns what each receiver's shares hold, and what each owner claims of short receivers."""
    found: dict[int, int] = defaultdict(int)
    for record in seen.shares:
        found[record.merchant] += record.withheld
        found[record.owner] += record.short
    return found


def available(seen: Observation) -> dict[int, int]:
    """Returns what the shares change about each balance."""
    found: dict[int, int] = defaultdict(int)
    for record in seen.shares:
        found[record.merchant] += record.kept - record.withheld
        found[record.owner] -= record.kept + record.short
    return found


def check_messages(
    records: Sequence[ShareRecord], listed: Messages, delivered: Messages
) -> Iterator[str]:
    """Takes the events of shares from those of all transactions, and checks them.

    A share is held or released when it is credited. The owner gets the later events too.
    """
    for record in records:
        for merchant in (record.merchant, record.owner):
            key = merchant, record.trx_id
            events, posted = listed.pop(key, {}), delivered.pop(key, {})
            messages = sorted(events.values())
            if merchant == record.merchant and not {"Share Held", "Share Released"} & {*messages}:
                yield f"the share {record.trx_id} has the events {messages}"
            if posted != events:
                got = sorted(posted.values())
                yield f"share {record.trx_id}: the endpoint got {got}, the events are {messages}"
