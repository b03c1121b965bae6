"""The part of the model about disputes: what they may hold of a merchant's money, and their status.

Like the rest of the model, it imports nothing from the product. All amounts are in minor units.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

NEEDS_RESPONSE, SUBMITTED = "needs_response", "submitted"
WON, LOST, ACCEPTED = "won", "lost", "accepted"
# A provider's fee for a lost dispute, which administrators record for some providers.
FEE = 500_00
ID = "DSP"  # prefix of the ids of disputes
# The status of a dispute after the provider's own status.
STATUSES = {"open": NEEDS_RESPONSE, "contested": SUBMITTED}
STATUSES |= {each: each for each in (WON, LOST, ACCEPTED)}
# The event that a dispute in this status must have had.
LAST_EVENT = {
    NEEDS_RESPONSE: "Dispute Opened",
    SUBMITTED: "Dispute Answered",
    WON: "Dispute Won",
    LOST: "Dispute Lost",
    ACCEPTED: "Dispute Accepted",
}
# The provider does not have the merchant's answer yet.
UNSENT = ("review", "waiting", "sending", "manual")


@dataclass(frozen=True, slots=True)
class Claim:
    """A dispute in a provider's own records."""

    rail: str
    reference: str
    charge: str
    amount: int
    status: str
    accepted: int
    has_fee: bool = False  # True if the administrators record a fee when it is lost

    @property
    def key(self) -> tuple[str, str]:
        return self.rail, self.reference

    @property
    def is_decided(self) -> bool:
        return self.status in (WON, LOST, ACCEPTED)

    @property
    def payment(self) -> str:
        return self.charge.rpartition("-")[0].upper()

    @property
    def wanted(self) -> int:
        """What the provider holds or has taken because of it."""
        return {WON: 0, ACCEPTED: self.accepted}.get(self.status, self.amount)


@dataclass(frozen=True, slots=True)
class DisputeRecord:
    """A dispute in the ledger."""

    merchant: int
    trx_id: str
    payment: str
    rail: str
    reference: str
    status: str
    answer: str
    withheld: int
    taken: int
    fee: int
    commission: int

    @property
    def key(self) -> tuple[str, str]:
        return self.rail, self.reference

    @property
    def held(self) -> int:
        return self.withheld + self.taken

    @property
    def cost(self) -> int:
        """What the dispute costs the merchant at this moment."""
        return self.held + self.fee - self.commission


def check(
    claims: Sequence[Claim],
    records: Sequence[DisputeRecord],
    paid: Mapping[str, int],
    refunded: Mapping[str, int],
) -> Iterator[str]:
    """Compares the disputes with the providers' records.

    `paid` maps each successful payment to what the customer paid, `refunded` to its refunds that
    have not failed.
    """
    expected = {each.key: each for each in claims if each.payment in paid}
    for key, count in Counter(each.key for each in records).items():
        if count > 1:
            yield f"{_name(key)} was opened {count} times"
        if key not in expected:
            yield f"{_name(key)} was opened, but its provider disputes no successful payment"
    found = {each.key: each for each in records}
    for key, claim in expected.items():
        if key not in found:
            yield f"{_name(key)} of {claim.payment} was not opened"
        else:
            yield from _check_one(claim, found[key])
    yield from _check_amounts(expected, found, paid, refunded)


def _check_one(claim: Claim, record: DisputeRecord) -> Iterator[str]:
    what = f"{_name(claim.key)} ({record.trx_id})"
    allowed = {STATUSES[claim.status]}
    if claim.status == "open" and record.answer in UNSENT:
        allowed.add(SUBMITTED)
    if record.payment != claim.payment:
        yield f"{what} belongs to {record.payment}, expected {claim.payment}"
    if record.status not in allowed:
        yield f"{what} is {record.status}, expected {' or '.join(sorted(allowed))}"
    is_open = record.status in (NEEDS_RESPONSE, SUBMITTED)
    if record.taken if is_open else record.withheld:
        yield f"{what} is {record.status}: it withholds {record.withheld}, took {record.taken}"
    if record.fee not in ((FEE,) if claim.status == LOST and claim.has_fee else (0, FEE)):
        yield f"{what} is {record.status} and has the fee {record.fee}"
    if record.commission:
        yield f"{what} has returned a commission of {record.commission}"


def _check_amounts(
    claims: Mapping[tuple[str, str], Claim],
    records: Mapping[tuple[str, str], DisputeRecord],
    paid: Mapping[str, int],
    refunded: Mapping[str, int],
) -> Iterator[str]:
    """Together, the disputes of a payment hold what the providers want, up to what is left."""
    wanted: dict[str, int] = defaultdict(int)
    held: dict[str, int] = defaultdict(int)
    for key, claim in claims.items():
        if key in records:
            wanted[claim.payment] += claim.wanted
            held[claim.payment] += records[key].held
            if records[key].held > claim.wanted:
                yield f"{_name(key)} holds {records[key].held}, expected {claim.wanted}"
    for payment, amount in wanted.items():
        left = paid[payment] - refunded.get(payment, 0)
        if held[payment] != min(amount, left):
            yield f"the disputes of {payment} hold {held[payment]}, expected {amount} of {left}"


def check_messages(record: DisputeRecord, messages: Sequence[str]) -> Iterator[str]:
    """A dispute is opened once, and each of its statuses has an event."""
    what = f"{_name(record.key)} ({record.trx_id}) is {record.status} and has the events {messages}"
    if messages.count("Dispute Opened") != 1 or LAST_EVENT[record.status] not in messages:
        yield what


def key_of(rail: str, reference: str) -> str:
    """Returns the model's key for the dispute's effect on the wallet."""
    return f"{rail}:{reference}"


def _name(key: tuple[str, str]) -> str:
    return f"dispute {key[1]} at rail {key[0]}"
