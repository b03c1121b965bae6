"""The actions of a customer on checkout, which the checkout pages call."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.cases.cases import CaseAction
from manilla.kit import jobs
from manilla.kit.batch import SharedReads, SharedWrite
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal, translatable
from manilla.kit.money import Money
from manilla.languages.language import ENGLISH, CustomerLanguage
from manilla.ledger import timeline, trx_ids
from manilla.ledger.transactions import TransactionNotFound
from manilla.merchants.branding import Branding
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method
from manilla.payments import (
    eligibility,
    notices,
    sandbox_amounts,
    states,
    store,
    suspense,
    wrong_amounts,
)
from manilla.payments.charges import ChargeService, GatewayUnavailable, PaymentClosed
from manilla.payments.choice import Candidate, CustomerWish, choose, setback
from manilla.payments.initiate import COMPLETE_IN_SANDBOX
from manilla.payments.payment import Charge, ChargeStatus, Payment, PaymentErrorCode, PaymentStatus
from manilla.payments.states import PaymentEvent
from manilla.payments.ways import (
    CheckoutEntry,
    GatewayOffer,
    channels_of,
    describe,
    entries,
    find,
)
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import Channel, Direction
from manilla.providers.rails import Rails

# An open checkout page polls its status at most every 10 seconds, and each view of the page delays
# the completion of a sandbox payment again. The payment completes this long after the page was
# closed: the delay for unopened payments, multiplied by the factor.
SANDBOX_PATIENCE = 4
SANDBOX_CLOSED_SECONDS_MIN = 15
# After the customer has chosen how to pay, a higher factor leaves time to pick an outcome.
SANDBOX_PATIENCE_AFTER_CHOICE = 12
RECEIPT_MAILED = "receipt_mailed"
RECEIPTS_MAX = 3  # maximum number of receipt emails that a customer can request per payment
ASK_PAUSE_SECONDS = 1.0
ASKED_MAX = 10_000


class MethodNotOffered(Refusal):
    code = "METHOD_NOT_OFFERED"
    message = translatable("This way to pay is no longer available. Please choose another one.")


class NoReceipt(Refusal):
    status, code = 409, "NO_RECEIPT"
    message = translatable("There is no receipt by email for this payment.")


class TooManyReceipts(Refusal):
    status, code = 429, "TOO_MANY_RECEIPTS"
    message = translatable(
        "The receipt was sent several times already. You can download it instead."
    )


class CheckoutView(msgspec.Struct, frozen=True):
    """All data for a checkout page."""

    payment: Payment
    merchant_name: str
    branding: Branding
    offers: list[GatewayOffer]  # the payment methods that the customer can choose from
    entries: list[CheckoutEntry]  # the payment methods, grouped as checkout shows them
    charge: Charge | None  # the latest undecided charge
    # When a sandbox payment completes automatically, unless a page with it is viewed before.
    completes_at: datetime | None
    is_blocked: bool  # True if the merchant cannot accept payments now
    held: Charge | None  # a paid charge that an administrator is reviewing
    released: CaseAction | None  # the administrator's decision about the money on hold
    # The latest charge, if it was declined and the customer must choose again.
    declined: Charge | None
    returned: Money  # amount that is refunded automatically after the payment's status is final
    # The origins of the merchant's pages that may show checkout in a frame.
    origins: tuple[str, ...]


class SandboxOutcome(StrEnum):
    """The outcomes that a customer can choose in the sandbox."""

    PAY = "pay"
    DECLINE = "decline"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    CANCEL = "cancel"
    # Only for bank transfers:
    PAY_LESS = "less"
    PAY_MORE = "more"
    PAY_LATE = "late"


WRONG_TRANSFERS = {
    SandboxOutcome.PAY_LESS: sandbox_amounts.too_little,
    SandboxOutcome.PAY_MORE: sandbox_amounts.too_much,
}
OUTCOMES: dict[SandboxOutcome, tuple[PaymentEvent, PaymentErrorCode | None]] = {
    SandboxOutcome.PAY: (PaymentEvent.PAID, None),
    SandboxOutcome.DECLINE: (PaymentEvent.DECLINED, PaymentErrorCode.PAYMENT_DECLINED),
    SandboxOutcome.INSUFFICIENT_FUNDS: (PaymentEvent.DECLINED, PaymentErrorCode.INSUFFICIENT_FUNDS),
    SandboxOutcome.CANCEL: (PaymentEvent.CANCELED, PaymentErrorCode.PAYMENT_CANCELED),
}


class Checkout:
    def __init__(
        self,
        db: Database,
        reads: SharedReads,
        platform: CurrentSettings,
        directory: Directory,
        catalogue: Catalogue,
        rails: Rails,
        charges: ChargeService,
    ) -> None:
        self._db = db
        self._reads = reads
        self._platform = platform
        self._directory = directory
        self._catalogue = catalogue
        self._rails = rails
        self._charges = charges
        self._set_opened = SharedWrite(db, store.SET_OPENED)
        self._asked: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def view(self, trx_id: str, language: CustomerLanguage | None = None) -> CheckoutView:
        """Returns the data for a page. Stores the language in which the customer sees it."""
        payment, tries = await self._find_with_charges(trx_id)
        caller = await self._directory.of(payment.environment, payment.merchant_id)
        if payment.status is PaymentStatus.PENDING:
            await self._mark_opened(payment, language)
        # Omit charges that the customer never saw.
        # Also omit charges for more than the remaining amount, created before a partial payment.
        shown = (
            each
            for each in reversed(tries)
            if (each.is_payable or each.error_code) and not _is_outdated(each, payment)
        )
        latest = next(shown, None)
        offers = self._offers(caller, payment)
        held = next((each for each in tries if each.status is ChargeStatus.SUSPENSE), None)
        return CheckoutView(
            payment=payment,
            merchant_name=caller.name,
            branding=caller.branding,
            offers=offers,
            entries=entries(offers, self._platform.now.checkout_choice),
            charge=latest if latest and latest.is_undecided else None,
            completes_at=await self._completes_at(payment),
            is_blocked=not eligibility.can_take_payments(caller, payment.currency),
            held=held,
            released=None if held is None else await self._released(held),
            declined=None if latest is None or latest.is_undecided else latest,
            returned=wrong_amounts.amount_to_return(payment),
            origins=caller.checkout_origins,
        )

    async def _released(self, held: Charge) -> CaseAction | None:
        return await suspense.release_action(self._db, held.merchant_id, held.reference)

    async def choose(self, trx_id: str, chosen: str, seen: int = 0) -> Charge:
        """Returns the charge for the method or the way to pay that the customer chose.

        Safe to repeat: a double click, the back button and a second tab get the same charge. A
        customer who has `seen` this charge on the page and chooses again gets another gateway.
        """
        payment, tries = await self._find_with_charges(trx_id)
        _check_open(payment)
        if payment.charges_way:
            raise MethodNotOffered
        caller = await self._directory.of(payment.environment, payment.merchant_id)
        offers = self._offers(caller, payment)
        entry = find(offers, chosen)
        if entry is None:
            raise MethodNotOffered
        if any(charge.is_payable and charge.number <= seen for charge in tries):
            # Query the provider first: a customer who has already paid must not pay twice.
            await self._ask(payment)
            _check_open(await self._find(trx_id))
        choice = choose(
            [self._candidate(caller, payment, entry, offer, tries, seen) for offer in entry.offers]
        )
        if not choice.ranked:
            raise GatewayUnavailable
        shown = entries(offers, self._platform.now.checkout_choice)
        wish = CustomerWish(choice, entry.channel, describe(shown, entry), seen)
        if payment.is_sandbox:
            return await self._choose_in_sandbox(payment, caller, wish)
        return await self._charges.open(payment, caller, wish, has_charges=bool(tries))

    async def _choose_in_sandbox(
        self, payment: Payment, caller: Caller, wish: CustomerWish
    ) -> Charge:
        charge = await self._charges.open_in_sandbox(payment, caller, wish)
        await self._wait_in_sandbox(payment)
        return charge

    async def _wait_in_sandbox(self, payment: Payment) -> None:
        """Postpones the payment's automatic completion, because a person is using checkout."""
        seconds = self._platform.now.sandbox_complete_seconds * SANDBOX_PATIENCE_AFTER_CHOICE
        key = payment.merchant_id, COMPLETE_IN_SANDBOX, payment.trx_id
        await jobs.postpone(self._db, *key, timedelta(seconds=seconds))

    def _candidate(
        self,
        caller: Caller,
        payment: Payment,
        entry: CheckoutEntry,
        offer: GatewayOffer,
        tries: Sequence[Charge],
        seen: int,
    ) -> Candidate:
        method = offer.method
        assert method.provider is not None
        mine = [charge for charge in tries if charge.method_code == method.code]
        setbacks = (setback(charge, entry.channel, seen) for charge in mine)
        return Candidate(
            method=method,
            name=method.name,
            fee=method.fee.of(payment.rest),
            place=eligibility.place(caller, method),
            down_since=self._rails.down_since(method.provider, Direction.PAY_IN)
            if offer.is_down
            else None,
            is_detour=entry.channel is Channel.BANK_TRANSFER and not offer.has_account,
            setbacks=[each for each in setbacks if each],
        )

    async def report_sent(self, trx_id: str) -> None:
        """Records that the customer has sent the money."""
        await self._charges.note_sent(await self._find(trx_id))

    async def look_again(self, trx_id: str) -> None:
        """Queries the provider immediately, because the customer says that they have paid."""
        payment = await self._find(trx_id)
        await self._ask(payment)

    async def cancel(self, trx_id: str, facts: Mapping[str, str] = timeline.NO_FACTS) -> None:
        payment = await self._find(trx_id)
        # Query the provider first, so that a payment made just now is not reported as canceled.
        await self._ask(payment)
        await states.give_up(
            self._db,
            payment.merchant_id,
            trx_id,
            PaymentEvent.CANCELED,
            PaymentErrorCode.PAYMENT_CANCELED,
            facts,
        )

    async def pretend(self, trx_id: str, outcome: SandboxOutcome) -> None:
        """Applies the outcome that the customer chose in the sandbox.

        As in production, a decline ends the customer's charge and not the payment, and the
        merchant's rules apply to wrong amounts. A declined payment without a charge fails.
        """
        payment = await self._find(trx_id)
        caller = await self._directory.of(payment.environment, payment.merchant_id)
        if not payment.is_sandbox or not self._offers(caller, payment):
            raise MethodNotOffered
        if outcome is SandboxOutcome.PAY_LATE:
            delay = self._platform.now.sandbox_complete_seconds
            key = payment.merchant_id, trx_id
            await states.let_expire_in_sandbox(self._db, *key, paid_in_seconds=delay)
            return
        if outcome in WRONG_TRANSFERS:
            sent = WRONG_TRANSFERS[outcome]
            await states.transfer_in_sandbox(self._db, payment.merchant_id, trx_id, sent)
            await self._wait_in_sandbox(payment)
            return
        event, error_code = OUTCOMES[outcome]
        if event is PaymentEvent.PAID:
            await self._charges.keep_card_in_sandbox(payment)
        if event is PaymentEvent.DECLINED:
            assert error_code is not None
            key = payment.merchant_id, trx_id
            if await states.decline_in_sandbox(self._db, *key, error_code):
                await self._wait_in_sandbox(payment)
                return
        await states.end_in_sandbox(self._db, payment.merchant_id, trx_id, event, error_code)

    async def mail_receipt(
        self, trx_id: str, address: str, language: CustomerLanguage = ENGLISH
    ) -> None:
        """Emails a receipt to an address that the customer entered.

        The sandbox sends no receipts: anyone with sandbox keys could send emails to anybody.
        """
        found = await self._find(trx_id)
        async with self._db.transaction() as connection:
            payment = await store.payment(connection, found.merchant_id, trx_id, lock=True)
            assert payment is not None
            if payment.is_sandbox or payment.status is not PaymentStatus.SUCCESS:
                raise NoReceipt
            steps = await timeline.steps(connection, payment.merchant_id, trx_id)
            if sum(step.event == RECEIPT_MAILED for step in steps) >= RECEIPTS_MAX:
                raise TooManyReceipts
            await notices.mail_receipt_to(connection, payment, address, language)
            status = payment.status
            await timeline.add(
                *(connection, payment.merchant_id, trx_id, RECEIPT_MAILED),
                before=status,
                after=status,
            )

    async def _ask(self, payment: Payment) -> None:
        """Queries the provider at most once a second, even if the customer clicks more often."""
        asking = self._asking.get(payment.trx_id)
        if asking is None:
            asking = asyncio.create_task(self._ask_in_turn(payment))
            self._asking[payment.trx_id] = asking
        await asyncio.shield(asking)

    async def _ask_in_turn(self, payment: Payment) -> None:
        last = self._asked.get(payment.trx_id, float("-inf"))
        await asyncio.sleep(max(0, last + ASK_PAUSE_SECONDS - time.monotonic()))
        # Later requests need a newer response, so they must not share this status query.
        del self._asking[payment.trx_id]
        if len(self._asked) >= ASKED_MAX:
            self._asked.clear()
        self._asked[payment.trx_id] = time.monotonic()
        await self._charges.ask_about_payable(payment)

    async def _find(self, trx_id: str) -> Payment:
        payment, _ = await self._find_with_charges(trx_id)
        return payment

    async def _find_with_charges(self, trx_id: str) -> tuple[Payment, list[Charge]]:
        merchant_id = trx_ids.merchant_of(trx_id)
        if merchant_id is None:
            raise TransactionNotFound
        found = await store.payment_with_charges(self._reads, merchant_id, trx_id)
        if found is None:
            raise TransactionNotFound
        return found

    def _offers(self, caller: Caller, payment: Payment) -> list[GatewayOffer]:
        if not eligibility.can_take_payments(caller, payment.currency):
            return []
        rest, keywords = payment.rest, payment.allow_payment_methods
        methods = eligibility.eligible(self._catalogue, self._rails, caller, rest, keywords)
        if payment.is_sandbox and not methods:
            # The sandbox calls no provider, so no provider needs to be configured.
            methods = eligibility.conceivable(self._catalogue, caller, rest, keywords)
        return [
            GatewayOffer(
                method,
                not payment.is_sandbox and self._is_down(method),
                channels_of(method, self._rails),
            )
            for method in eligibility.in_order(caller, methods)
        ]

    def _is_down(self, method: Method) -> bool:
        return method.provider is not None and self._rails.is_down(
            method.provider, Direction.PAY_IN
        )

    async def _mark_opened(self, payment: Payment, language: CustomerLanguage | None) -> None:
        """Records when checkout was first opened, and the language for the customer's receipt."""
        code = payment.language if language is None else _stored(language)
        if payment.opened_at is None or payment.language != code:
            await self._set_opened.records(payment.merchant_id, payment.trx_id, code)

    async def _completes_at(self, payment: Payment) -> datetime | None:
        """Delays the completion of a sandbox payment while its page is open. Returns the new time.

        Returns None if the payment does not complete automatically. A failed payment completes when
        its late test transfer arrives, which open pages do not delay.
        """
        if not payment.is_sandbox or payment.status is PaymentStatus.SUCCESS:
            return None
        key = payment.merchant_id, COMPLETE_IN_SANDBOX, payment.trx_id
        if payment.status is PaymentStatus.FAILED:
            return await jobs.due_at(self._db, *key)
        delay = self._platform.now.sandbox_complete_seconds * SANDBOX_PATIENCE
        wait = timedelta(seconds=max(delay, SANDBOX_CLOSED_SECONDS_MIN))
        due_at = await jobs.due_at(self._db, *key)
        # Not every view writes: several tabs may poll at the same time.
        if due_at is None or due_at - datetime.now(UTC) > wait * 0.8:
            return due_at
        await jobs.postpone(self._db, *key, wait)
        return await jobs.due_at(self._db, *key)


def _stored(language: CustomerLanguage) -> str | None:
    """Returns the language's code as it is stored: none for English."""
    return None if language is ENGLISH else language.code


def _check_open(payment: Payment) -> None:
    if payment.status is not PaymentStatus.PENDING or payment.expires_at <= datetime.now(UTC):
        raise PaymentClosed


def _is_outdated(charge: Charge, payment: Payment) -> bool:
    """Whether a partial payment has arrived since the charge was created."""
    return payment.received_minor is not None and charge.amount != payment.rest
