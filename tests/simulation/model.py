"""The oracle of the simulation: a pure model of money that imports nothing from the product.

The model knows what merchants, customers and administrators did. It compares that with what
merchants, providers and the ledger report. All amounts are in minor units.
- `explain` checks a balance that was read at any moment. While the outcome of an operation is
  unknown, the operation's money may or may not have moved, so the model allows an interval.
- `see` checks a status that was read at any moment: a final status must not change.
- `check` compares a complete observation at a quiet moment, when all jobs are done.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.simulation import disputed, shares
from tests.simulation.facts import Decision, Kind, Moved, Notice, Observation, Operation


@dataclass(slots=True)
class Bounds:
    low: int
    high: int


SUCCESS, PENDING, FAILED, MISSING = "success", "pending", "failed", "missing"
# Each final status allows these sequences of notices. A reversal can overtake the delivery's news.
MESSAGES = {
    # A customer can pay after the checkout link has expired.
    (Kind.PAYMENT, SUCCESS): (["Payment Completed"], ["Payment Failed", "Payment Completed"]),
    (Kind.PAYMENT, FAILED): (["Payment Failed"],),
    (Kind.PAYOUT, SUCCESS): (["Payout Completed"],),
    (Kind.PAYOUT, FAILED): (
        *(["Payout Failed"], ["Payout Canceled"]),
        ["Payout Reversed"],
        ["Payout Completed", "Payout Reversed"],
    ),
    (Kind.REFUND, SUCCESS): (["Payment Refunded"],),
}


class Model:
    def __init__(self) -> None:
        self.operations: dict[tuple[int, Kind, str], Operation] = {}
        self.checkouts_expired = False  # True after the clock jumped past the links' expiry
        self._wallets: dict[int, list[Operation]] = defaultdict(list)
        self._readings: list[tuple[int, Bounds]] = []

    def fund(self, merchant: int, reference: str, amount: int) -> None:
        self.decide(self.adjust(merchant, reference, amount), is_approved=True)

    def adjust(self, merchant: int, reference: str, amount: int) -> Operation:
        """Records an adjustment of a wallet that a second administrator must approve."""
        credit, debit = max(amount, 0), max(-amount, 0)
        wanted = Operation(merchant, Kind.FUNDING, reference, debit=debit, credit=credit)
        wanted.debited = wanted.credited = Moved.MAYBE
        self._add(wanted)
        return wanted

    def decide(self, adjustment: Operation, *, is_approved: bool) -> None:
        adjustment.debited = adjustment.credited = Moved.YES if is_approved else Moved.NO
        self._change(adjustment)

    def request(self, operation: Operation) -> Operation:
        """Records a request whose outcome is not known yet. A repeated request changes nothing."""
        known = self.operations.get(_key(operation))
        if known is not None:
            return known
        if operation.debit:
            # A payout can fail, and return its money, before the response arrives.
            operation.debited = operation.credited = Moved.MAYBE
        self._add(operation)
        return operation

    def accept(self, operation: Operation, trx_id: str) -> str | None:
        """Records that a request was accepted. Returns a violation if it had another id before."""
        if operation.trx_id not in ("", trx_id):
            return f"{_name(operation)} was accepted as {operation.trx_id} and again as {trx_id}"
        operation.trx_id = trx_id
        if operation.debit:
            operation.debited = Moved.YES
        self._change(operation)
        return None

    def reject(self, operation: Operation) -> str | None:
        """Records that a request was rejected, so no money may move."""
        if operation.trx_id:
            return f"{_name(operation)} was accepted as {operation.trx_id} and later rejected"
        operation.debited = operation.credited = Moved.NO
        self._change(operation)
        del self.operations[_key(operation)]
        self._wallets[operation.merchant].remove(operation)
        return None

    def pay(self, operation: Operation) -> None:
        """Records that the customer pays, so that the credit can arrive from now on."""
        if operation.credited is Moved.NO:
            operation.credited = Moved.MAYBE
        self._change(operation)

    def reverse(self, operation: Operation) -> None:
        """Records that the provider returns a transfer that it delivered."""
        operation.is_reversed = True
        self.pay(operation)

    def dispute(self, merchant: int, key: str, amount: int) -> Operation:
        """Records that a dispute may hold any part of an amount from now on."""
        found = self.operations.get((merchant, Kind.DISPUTE, key))
        if found is None:
            found = Operation(merchant, Kind.DISPUTE, key)
            self._add(found)
        found.debit = found.credit = amount + disputed.FEE
        found.debited = found.credited = Moved.MAYBE
        self._change(found)
        return found

    def change_dispute(self, merchant: int, keys: Sequence[str], amount: int) -> None:
        """Records that a dispute can change, which has one of these keys."""
        for key in keys:
            if (merchant, Kind.DISPUTE, key) in self.operations:
                self.dispute(merchant, key, amount)

    def settle_disputes(self, seen: Observation) -> None:
        """Learns at a quiet moment what each dispute holds. Undecided ones can still change."""
        for operation in [each for each in self.operations.values() if each.kind is Kind.DISPUTE]:
            del self.operations[_key(operation)]
            self._wallets[operation.merchant].remove(operation)
        claims = {each.key: each for each in seen.claims}
        for record in seen.disputes:
            claim = claims[record.key]
            known = self.dispute(record.merchant, disputed.key_of(*record.key), claim.amount)
            if claim.is_decided and record.held == claim.wanted:
                known.debit = known.credit = record.cost
                known.debited, known.credited = Moved.YES, Moved.NO

    def see(self, operation: Operation, status: str) -> str | None:
        """Records a reported status. Returns a violation if a final status must not change so."""
        before, operation.status = operation.status, status
        is_payment = operation.kind is Kind.PAYMENT
        if status == SUCCESS:
            operation.credited = Moved.YES if is_payment else Moved.NO
            if operation.is_reversed:
                operation.credited = Moved.MAYBE
        elif status == FAILED and not is_payment:
            operation.credited = Moved.YES
        self._change(operation)
        may_change = operation.is_reversed or (is_payment and before == FAILED)
        if before in (PENDING, status) or (may_change and status != PENDING):
            return None
        return f"{_name(operation)} ({operation.trx_id}) was {before} and is now {status}"

    def bounds(self, merchant: int) -> Bounds:
        """Returns the smallest and largest balance that the operations can explain."""
        found = Bounds(0, 0)
        for operation in self._wallets[merchant]:
            if operation.debited is not Moved.NO:
                found.low -= operation.debit
            if operation.debited is Moved.YES:
                found.high -= operation.debit
            # The credit of a debited operation is only possible after its debit.
            returns = bool(operation.debit) and operation.debited is Moved.MAYBE
            if operation.credited is not Moved.NO and not returns:
                found.high += operation.credit
            if operation.credited is Moved.YES:
                found.low += operation.credit
        # What a wallet cannot cover of a dispute is a debt, which its later credits pay.
        return Bounds(max(found.low, 0), max(found.high, 0))

    def begin_reading(self, merchant: int) -> Bounds:
        """Starts a read. Until `explain`, every change widens the returned bounds."""
        bounds = self.bounds(merchant)
        self._readings.append((merchant, bounds))
        return bounds

    def end_reading(self, bounds: Bounds) -> None:
        self._readings = [each for each in self._readings if each[1] is not bounds]

    def explain(self, merchant: int, bounds: Bounds, available: int) -> str | None:
        """Ends a read. Returns a violation if no order of the operations explains the balance."""
        self.end_reading(bounds)
        if bounds.low <= available <= bounds.high:
            return None
        return f"merchant {merchant} has {available}, expected {bounds.low} to {bounds.high}"

    def check(self, seen: Observation) -> list[str]:
        """Returns every difference between the model and the observation."""
        return [
            *(f"the ledger violates the invariant {name}" for name in seen.broken),
            *self._check_transfers(seen),
            *self._check_received(seen),
            *self._check_statuses(seen),
            *self._check_refunds(seen),
            *self._check_disputes(seen),
            *shares.check(self._accepted(), seen),
            *self._check_balances(seen),
            *self._check_notices(seen),
        ]

    def _check_transfers(self, seen: Observation) -> Iterator[str]:
        """Each accepted payout and refund reaches at most one provider, once, with its amount."""
        sent = [(Kind.PAYOUT, each) for each in seen.transfers]
        sent += [(Kind.REFUND, each) for each in seen.refunds]
        known = {(each.kind, each.trx_id.upper()): each for each in self._accepted()}
        live: dict[str, list[str]] = defaultdict(list)
        for kind, transfer in sent:
            operation = known.get((kind, transfer.reference.upper()))
            what = f"{kind} {transfer.reference} at rail {transfer.rail}"
            if operation is None:
                yield f"{what}: no merchant asked for it"
                continue
            if transfer.amount != operation.amount:
                yield f"{what}: sent {transfer.amount} instead of {operation.amount}"
            if transfer.status != FAILED:
                live[operation.trx_id].append(transfer.rail)
        for trx_id, rails in live.items():
            if len(rails) > 1:
                yield f"{trx_id} was paid {len(rails)} times, by rails {', '.join(rails)}"

    def _check_received(self, seen: Observation) -> Iterator[str]:
        """Each transfer into a customer's account was received, once, with its amount."""
        known = {each.payer: each for each in self.operations.values() if each.payer}
        sent = {each.reference: each for each in seen.received}
        for transfer in seen.received:
            operation = known.get(transfer.reference)
            if operation is None or not operation.trx_id:
                yield f"the transfer of {transfer.reference} was not received"
            elif operation.amount != transfer.amount:
                yield f"{_name(operation)} is about {operation.amount}, not {transfer.amount}"
        for operation in known.values():
            if operation.trx_id and operation.payer not in sent:
                yield f"{_name(operation)}: nobody sent this transfer"

    def _check_statuses(self, seen: Observation) -> Iterator[str]:
        truth = _truth(seen)
        for operation in self._accepted():
            status = seen.statuses.get(operation.trx_id, MISSING)
            allowed = self._allowed(operation, truth, operation.trx_id in seen.cases)
            if status not in allowed:
                expected = " or ".join(sorted(allowed))
                yield f"{_name(operation)} ({operation.trx_id}) is {status}, expected {expected}"

    def _check_refunds(self, seen: Observation) -> Iterator[str]:
        """The refunds of a payment, except failed ones, are not larger than the payment."""
        refunded: dict[str, int] = defaultdict(int)
        for operation in self._accepted():
            if operation.payment and seen.statuses.get(operation.trx_id) != FAILED:
                refunded[operation.payment.trx_id] += operation.amount
                if refunded[operation.payment.trx_id] > operation.payment.amount:
                    yield f"{_name(operation.payment)} was refunded more than once"

    def _check_disputes(self, seen: Observation) -> Iterator[str]:
        """Each dispute holds or took what its provider wants, beside refunds and other disputes."""
        paid = {
            each.reference.rpartition("-")[0].upper(): each.amount
            for each in seen.charges
            if each.status == SUCCESS
        }
        refunded: dict[str, int] = defaultdict(int)
        for operation in self._accepted():
            if operation.payment and seen.statuses.get(operation.trx_id) != FAILED:
                refunded[operation.payment.trx_id] += operation.amount
        yield from disputed.check(seen.claims, seen.disputes, paid, refunded)
        withheld = shares.withheld(seen)
        for record in seen.disputes:
            withheld[record.merchant] += record.withheld
        for merchant, minor in seen.withheld.items():
            if minor != withheld[merchant]:
                yield f"merchant {merchant} sees {minor} withheld, expected {withheld[merchant]}"

    def _allowed(
        self, operation: Operation, truth: dict[tuple[Kind, str], set[str]], has_case: bool
    ) -> set[str]:
        """Returns the statuses that the provider's or the administrator's record allows."""
        decided = {Decision.PAID: {SUCCESS}, Decision.REJECTED: {FAILED}}.get(operation.decision)
        if decided:
            return decided
        found = truth.get((operation.kind, operation.trx_id.upper()), set())
        if operation.payer:
            return {SUCCESS, FAILED} if has_case else {SUCCESS}
        if operation.is_again and SUCCESS not in found:
            return {PENDING, FAILED}
        if operation.kind is Kind.PAYMENT:
            unpaid = {PENDING, FAILED} if self.checkouts_expired else {PENDING}
            return {SUCCESS} if SUCCESS in found else unpaid
        if operation.is_manual:
            return {PENDING}
        if SUCCESS in found:
            return {SUCCESS} if operation.can_be_queried else {SUCCESS, PENDING}
        if "reversed" in found:
            # The platform learns about a reversal only if the provider's webhook arrives.
            return {SUCCESS, FAILED}
        if "processing" in found:
            return {PENDING}
        return {FAILED} if operation.can_be_queried and not has_case else {FAILED, PENDING}

    def _check_balances(self, seen: Observation) -> Iterator[str]:
        available = shares.available(seen)
        in_flight: dict[int, int] = defaultdict(int)
        for operation in self.operations.values():
            status = seen.statuses.get(operation.trx_id, PENDING)
            if operation.trx_id or operation.kind is Kind.FUNDING:
                available[operation.merchant] += _net(operation, status)
            if operation.trx_id and operation.kind is Kind.PAYOUT and status == PENDING:
                in_flight[operation.merchant] += operation.debit
        for record in seen.disputes:
            available[record.merchant] -= record.cost
        for merchant, balance in sorted(seen.available.items()):
            net, short = available[merchant], seen.short.get(merchant, 0)
            if balance - short != net:
                yield f"merchant {merchant} has {balance - short}, expected {net}"
            if min(balance, short) != 0:
                yield f"merchant {merchant} has {balance} and owes {short}"
            flying = seen.in_flight.get(merchant, 0)
            if flying != in_flight[merchant]:
                yield f"merchant {merchant} has {flying} in flight, expected {in_flight[merchant]}"

    def _check_notices(self, seen: Observation) -> Iterator[str]:
        """Each status change caused one event and one notice, whatever the number of copies."""
        received, listed = _messages(seen.notices), _messages(seen.events)
        delivered = _messages(seen.deliveries)
        for record in seen.disputes:
            key = record.merchant, record.trx_id
            events, posted = listed.pop(key, {}), delivered.pop(key, {})
            yield from disputed.check_messages(record, list(events.values()))
            if posted != events:
                got, messages = sorted(posted.values()), sorted(events.values())
                yield f"dispute {record.trx_id}: the endpoint got {got}, the events are {messages}"
        yield from shares.check_messages(seen.shares, listed, delivered)
        for operation in self._accepted():
            status = seen.statuses.get(operation.trx_id, PENDING)
            allowed = MESSAGES.get((operation.kind, status), ([],))
            key = (operation.merchant, operation.trx_id)
            notices, events = received.pop(key, {}), listed.pop(key, {})
            posted, messages = delivered.pop(key, {}), sorted(events.values())
            # A failed refund has an event without a notice.
            if operation.kind is Kind.REFUND and status == FAILED:
                continue
            if messages not in [sorted(each) for each in allowed]:
                yield f"{_name(operation)} is {status} and has the events {messages}"
            if operation.has_notice and notices != events:
                got = sorted(notices.values())
                yield f"{_name(operation)}: the receiver got {got}, the events are {messages}"
            if posted != events:
                got = sorted(posted.values())
                yield f"{_name(operation)}: the endpoint got {got}, the events are {messages}"
        for merchant, trx_id in {**received, **listed, **delivered}:
            yield f"merchant {merchant} got a notice about {trx_id}, which it did not create"

    def _accepted(self) -> Iterator[Operation]:
        return (each for each in self.operations.values() if each.trx_id)

    def _add(self, operation: Operation) -> None:
        self.operations[_key(operation)] = operation
        self._wallets[operation.merchant].append(operation)
        self._change(operation)

    def _change(self, operation: Operation) -> None:
        for merchant, bounds in self._readings:
            if merchant == operation.merchant:
                now = self.bounds(merchant)
                bounds.low, bounds.high = min(bounds.low, now.low), max(bounds.high, now.high)


def _key(operation: Operation) -> tuple[int, Kind, str]:
    return operation.merchant, operation.kind, operation.reference


def _name(operation: Operation) -> str:
    return f"{operation.kind} {operation.reference} of merchant {operation.merchant}"


def _net(operation: Operation, status: str) -> int:
    """Returns the operation's effect on the wallet if the API reports this status."""
    if operation.kind is Kind.FUNDING:
        return (operation.credit - operation.debit) * (operation.credited is Moved.YES)
    if not operation.debit:
        return operation.credit if status == SUCCESS else 0
    return operation.credit - operation.debit if status == FAILED else -operation.debit


def _truth(seen: Observation) -> dict[tuple[Kind, str], set[str]]:
    """Maps each transaction to the statuses of its charges and transfers at the providers."""
    found: dict[tuple[Kind, str], set[str]] = defaultdict(set)
    for kind, objects in ((Kind.PAYOUT, seen.transfers), (Kind.REFUND, seen.refunds)):
        for each in objects:
            found[kind, each.reference.upper()].add(each.status)
    for charge in seen.charges:
        # A charge's reference is the payment's id and the number of the charge.
        found[Kind.PAYMENT, charge.reference.rpartition("-")[0].upper()].add(charge.status)
    return found


def _messages(notices: list[Notice]) -> dict[tuple[int, str], dict[str, str]]:
    """Maps each transaction to its notices: message by id, so that copies count once."""
    found: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for notice in notices:
        found[notice.merchant, notice.trx_id][notice.id] = notice.message
    return found
