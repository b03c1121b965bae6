"""Charges: attempts to collect a payment through a provider.

A charge is saved before it is sent, and its status is queried until it is final.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from manilla.kit import crash, deadline, jobs, time_limits, tracing
from manilla.kit.batch import SharedWrite
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import struct_of
from manilla.kit.errors import Refusal, Unavailable, translatable
from manilla.ledger import timeline
from manilla.merchants import merchants
from manilla.merchants.directory import Caller
from manilla.methods.method import Flow, Method
from manilla.payments import states, store
from manilla.payments.batch_credit import CreditedPayments
from manilla.payments.choice import CustomerWish
from manilla.payments.first_charges import (
    CHECK,
    FIRST_CHECK_SECONDS,
    GATEWAY_CHOSEN,
    FirstCharges,
)
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment import SANDBOX, Charge, ChargeStatus, Payment, PaymentStatus
from manilla.platform.settings import CurrentSettings
from manilla.providers import status_query, wire
from manilla.providers.port import (
    Adapter,
    Answer,
    ChargeOrder,
    ChargeState,
    Done,
    HostedCheckout,
    Refused,
    ReusableCard,
    Unknown,
    VirtualAccount,
    WebhookSubject,
)
from manilla.providers.rails import Rails
from manilla.providers.replies import NO_CHARGE

TRIES_MAX = 20
DESCRIPTION_LENGTH_MAX = 200
SANDBOX_BVN = "22222222222"
# In the sandbox, checkout shows one of our pages, or an account number that no bank issues.
SANDBOX_PAGE = "/sandbox"
SANDBOX_BANK, SANDBOX_ACCOUNT = "Sandbox Bank", "0000000000"
NO_NAME = "Customer"
SAVE_PAUSE_SECONDS = 0.2
CUSTOMER_SENT = "customer_sent"

CreatedCharge = Answer[HostedCheckout] | Answer[VirtualAccount]


class CardKeeper(Protocol):
    """Saves cards whose customers approved this, so that the merchant can charge them again."""

    async def keep(self, charge: Charge, card: ReusableCard) -> None: ...

    async def keep_in_sandbox(self, payment: Payment) -> None: ...


class PaymentClosed(Refusal):
    status, code = 409, "ALREADY_DECIDED"
    message = translatable("This payment is closed. Please start again at the shop.")


class TooManyCharges(Refusal):
    status, code = 429, "TOO_MANY_TRIES"
    message = translatable("There were too many attempts to pay. Please start again at the shop.")


class GatewayRefused(Refusal):
    status, code = 422, "PAYMENT_DECLINED"
    message = translatable("This way to pay did not work. Please choose another one.")


class GatewayUnavailable(Refusal):
    status, code = 503, "SERVICE_UNAVAILABLE"
    message = translatable(
        "This way to pay is unavailable right now. Please try again or choose another."
    )


class ChargeService:
    """Opens charges at providers and queries their status."""

    def __init__(
        self,
        db: Database,
        keyring: Keyring,
        platform: CurrentSettings,
        rails: Rails,
        links: CheckoutLinks,
        base_url: str,
        cards: CardKeeper,
    ) -> None:
        self._db = db
        self._cards = cards
        self._credited = CreditedPayments(db)
        self._first_charges = FirstCharges(db)
        self._set_checkout_url = SharedWrite(db, store.SET_CHECKOUT_URL)
        self._platform = platform
        self._keyring = keyring
        self._rails = rails
        self._links = links
        self._base_url = base_url

    async def open(
        self, payment: Payment, caller: Caller, wish: CustomerWish, *, has_charges: bool
    ) -> Charge:
        """Returns the customer's open charge, or creates one at the first gateway that accepts it.

        Creating a charge moves no money, so the next gateway can be tried even if it is unknown
        whether the previous gateway has created a charge. `has_charges`: whether the payment had
        charges when the caller loaded it.
        """
        assert not payment.is_sandbox, "no provider is called for the sandbox"
        limits = time_limits.current
        loop = asyncio.get_running_loop()
        ends = loop.time() + limits.charge_seconds
        refusal: Refusal = GatewayUnavailable()
        gateways = wish.choice.ranked
        for number, gateway in enumerate(gateways):
            left = ends - loop.time()
            if left < limits.gateway_seconds_min:
                break
            is_last = number == len(gateways) - 1
            with wire.limit_calls(left if is_last else max(left / 2, limits.gateway_seconds_min)):
                opened = await self._try(
                    *(payment, caller, wish, gateway.method, number), has_charges=has_charges
                )
            if isinstance(opened, Charge):
                return opened
            refusal = opened
        raise refusal

    async def open_in_sandbox(self, payment: Payment, caller: Caller, wish: CustomerWish) -> Charge:
        """Returns a charge whose outcome the customer chooses. No provider is called."""
        assert payment.is_sandbox
        method = wish.choice.ranked[0].method
        charge, is_new = await self._reserve(payment, wish, method, 0)
        if not is_new:
            return charge
        if method.flow is Flow.HOSTED:
            url = self._links.url(payment.trx_id, payment.expires_at, SANDBOX_PAGE)
            await self.save_checkout_url(charge, url)
        else:
            name = short(caller.name) or NO_NAME
            account = VirtualAccount(SANDBOX_BANK, SANDBOX_ACCOUNT, name, charge.amount, None)
            await store.set_account(self._db, charge, account)
        return charge

    async def _try(
        self,
        payment: Payment,
        caller: Caller,
        wish: CustomerWish,
        method: Method,
        number: int,
        *,
        has_charges: bool,
    ) -> Charge | Refusal:
        """Returns the charge at one gateway, or the error if the gateway created no charge."""
        assert method.provider is not None
        adapter = self._rails.adapter(method.provider)
        if adapter is None:
            return GatewayUnavailable()
        is_first = number == 0 and not has_charges
        charge = await self._reserve_first(payment, wish, method) if is_first else None
        if charge is None:
            charge, is_new = await self._reserve(payment, wish, method, number)
            if not is_new:
                return charge
        crash.point("after_charge_commit")
        with tracing.begin("create charge", payment.traceparent):
            answer = await self._send(adapter, payment, method, caller, charge)
        crash.point("after_charge_is_created")
        return await self._insist_on_saving(charge, answer)

    async def _insist_on_saving(self, charge: Charge, answer: CreatedCharge) -> Charge | Refusal:
        """Saves the provider's answer, and retries while the database is briefly unavailable.

        Without the saved answer, the customer cannot see a charge that the provider has created.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + time_limits.current.charge_save_seconds
        while True:
            try:
                with deadline.limited():
                    saved = await self._save(charge, answer)
                    # If a status query has decided the charge, load the charge as it is now.
                    key = charge.merchant_id, charge.reference
                    saved = saved or await store.charge(self._db, *key)
            except Unavailable:
                if loop.time() >= ends:
                    raise
                await asyncio.sleep(SAVE_PAUSE_SECONDS)
            else:
                assert saved is not None
                return saved

    async def _reserve_first(
        self, payment: Payment, wish: CustomerWish, method: Method
    ) -> Charge | None:
        """Returns the payment's first charge, or None if `_reserve` must decide."""
        if payment.received_minor is not None:
            return None
        new = _new_charge(payment, method, wish, 1)
        choice = wish.choice
        note = (wish.explain(0), choice.facts(0)) if choice.is_between_several else None
        crash.point("before_charge_commit")
        is_added = await self._first_charges.add(new, note)
        return new if is_added else None

    async def _reserve(
        self, payment: Payment, wish: CustomerWish, method: Method, number: int
    ) -> tuple[Charge, bool]:
        """Returns the charge for the customer, and whether the charge is new.

        Locks the payment's row, so that a double click, a second tab or a second customer gets the
        same charge.
        """
        async with self._db.transaction() as connection:
            current = await _locked(connection, payment)
            if current.status is not PaymentStatus.PENDING:
                raise PaymentClosed
            earlier = await store.charges(connection, payment.merchant_id, payment.trx_id)
            # Reuse only the latest charge: returning to an earlier method creates a new charge.
            latest = next((charge for charge in reversed(earlier) if charge.is_payable), None)
            if latest and wish.accepts(latest, method) and _is_usable(latest, current):
                return latest, False
            if len(earlier) >= TRIES_MAX:
                raise TooManyCharges
            if wish.choice.is_between_several:
                why, facts = wish.explain(number), wish.choice.facts(number)
                await _note(connection, current, GATEWAY_CHOSEN, why, facts)
            new = _new_charge(current, method, wish, len(earlier) + 1)
            await insert(connection, new)
            crash.point("before_charge_commit")
        return new, True

    async def _send(
        self,
        adapter: Adapter,
        payment: Payment,
        method: Method,
        caller: Caller,
        charge: Charge,
    ) -> CreatedCharge:
        order = ChargeOrder(
            reference=charge.reference,
            amount=charge.amount,
            description=short(payment.description) or f"Payment to {caller.name}",
            customer_name=short(payment.customer_name) or NO_NAME,
            customer_email=payment.customer_email
            or self._platform.now.customer_email(self._base_url),
            merchant_name=short(caller.name) or NO_NAME,
            redirect_url=self._links.url(payment.trx_id, payment.expires_at, "/return"),
            notification_url=f"{self._base_url}/webhooks/{charge.provider}",
            channel=charge.channel,
        )
        if method.flow is Flow.HOSTED:
            return await adapter.create_checkout(order)
        return await adapter.create_virtual_account(order, await self._bvn(adapter, payment))

    async def _bvn(self, adapter: Adapter, payment: Payment) -> str | None:
        current = self._rails.credentials(adapter.provider)
        if not current.kind.capabilities.virtual_account_needs_bvn:
            return None
        if current.is_sandbox:
            return SANDBOX_BVN
        return await merchants.read_bvn(self._db, self._keyring, payment.merchant_id)

    async def _save(self, charge: Charge, answer: CreatedCharge) -> Charge | Refusal | None:
        """Saves the charge's checkout URL or account, or returns the error for the customer."""
        match answer:
            case Done(HostedCheckout(checkout_url)):
                return await self.save_checkout_url(charge, checkout_url)
            case Done(VirtualAccount() as account) if account.amount == charge.amount:
                return await store.set_account(self._db, charge, account)
            case Done(VirtualAccount() as account):
                status, reason = ChargeStatus.FAILED, f"the account expects {account.amount}"
            case Refused(_, guidance):
                status, reason = ChargeStatus.FAILED, guidance
            case Unknown(unknown):
                # The charge may exist at the provider, so its status is queried later.
                status, reason = ChargeStatus.OPENING, unknown
        await self._abandon(charge, status, reason)
        return GatewayRefused() if status is ChargeStatus.FAILED else GatewayUnavailable()

    async def save_checkout_url(self, charge: Charge, url: str) -> Charge | None:
        """Returns the open charge, or None if the charge is no longer being created."""
        records = await self._set_checkout_url.records(charge.merchant_id, charge.reference, url)
        return struct_of(Charge, records[0][1:]) if records else None

    async def _abandon(self, charge: Charge, status: ChargeStatus, reason: str) -> None:
        result = "refused" if status is ChargeStatus.FAILED else "unknown, will be queried"
        async with self._db.transaction() as connection:
            payment = await _locked(connection, charge)
            await store.abandon_charge(connection, charge, status, reason or "no reason given")
            detail = f"charge {charge.reference}: {result}: {reason}"
            await _note(connection, payment, "charge_not_created", detail)

    async def ask(self, charge: Charge) -> tuple[Answer[ChargeState], bool]:
        """Queries the charge's status at the provider, and applies the status.

        Returns the provider's answer, and whether the payment was credited.
        """
        answer = await self._state(charge)
        if not isinstance(answer, Done):
            return answer, False
        if charge.way_id is not None and answer.value.card is not None:
            # Before the credit, so that the notification of the payment contains the saved way.
            await self._cards.keep(charge, answer.value.card)
        is_credited = await self._credited.credit(charge, answer.value)
        if not is_credited:
            await states.conclude(self._db, charge, answer.value)
        return answer, is_credited

    async def _state(self, charge: Charge) -> Answer[ChargeState]:
        """Queries the charge, or the debit of a mandate, which some providers query otherwise."""
        about = charge.provider, charge.reference
        answer = await self._rails.state(WebhookSubject.CHARGE, *about)
        if charge.way_id is None or answer != Done(NO_CHARGE):
            return answer
        adapter = self._rails.adapter(charge.provider)
        mandates = None if adapter is None else adapter.mandates
        return answer if mandates is None else await mandates.debit_state(charge.reference)

    async def keep_card_in_sandbox(self, payment: Payment) -> None:
        if payment.saves_way:
            await self._cards.keep_in_sandbox(payment)

    async def note_sent(self, payment: Payment) -> None:
        """Records in the timeline that the customer has sent the money, once for each charge."""
        async with self._db.transaction() as connection:
            current = await _locked(connection, payment)
            key = payment.merchant_id, payment.trx_id
            charges = await store.charges(connection, *key)
            charge = next((each for each in reversed(charges) if each.is_payable), None)
            if charge is None:
                return
            facts = {"charge": charge.reference}
            steps = await timeline.steps(connection, *key)
            if not any(step.event == CUSTOMER_SENT and step.facts == facts for step in steps):
                detail = f"charge {charge.reference}"
                await _note(connection, current, CUSTOMER_SENT, detail, facts)

    async def ask_about_all(self, payment: Payment) -> None:
        if payment.is_sandbox:
            return  # no provider is called for sandbox charges
        for charge in await store.charges(self._db, payment.merchant_id, payment.trx_id):
            if charge.is_undecided:
                await self.ask(charge)

    async def ask_about_payable(self, payment: Payment) -> None:
        """Queries the status of charges that the customer may have paid, while the customer waits.

        Jobs query the other charges, whose providers did not respond before and may be slow. The
        pages show the answers with those of the jobs.
        """
        if payment.is_sandbox:
            return
        for charge in await store.charges(self._db, payment.merchant_id, payment.trx_id):
            if charge.is_payable:
                answer, is_credited = await self.ask(charge)
                if not is_credited:
                    key = charge.merchant_id, CHECK, charge.reference
                    await jobs.save_result(self._db, *key, status_query.reported_status(answer))


def _is_usable(charge: Charge, payment: Payment) -> bool:
    """Whether a customer who chooses the method again can continue with this charge."""
    now = datetime.now(UTC)
    if charge.amount != payment.rest:
        return False
    if charge.status is ChargeStatus.OPENING:
        return now - charge.created_at < timedelta(
            seconds=time_limits.current.charge_opening_seconds
        )
    ends = charge.account_expires_at
    return charge.status is ChargeStatus.OPEN and (ends is None or ends > now)


async def _locked(connection: Connection, of: Payment | Charge) -> Payment:
    payment = await store.payment(connection, of.merchant_id, of.trx_id, lock=True)
    assert payment is not None
    return payment


async def _note(
    connection: Connection,
    payment: Payment,
    event: str,
    detail: str,
    facts: Mapping[str, str] = timeline.NO_FACTS,
) -> None:
    """Adds an event to the payment's timeline, without changing the payment's status."""
    status = payment.status
    await timeline.add(
        *(connection, payment.merchant_id, payment.trx_id, event),
        before=status,
        after=status,
        detail=detail,
        facts=facts,
    )


def _new_charge(payment: Payment, method: Method, wish: CustomerWish, number: int) -> Charge:
    assert method.provider is not None
    return Charge(
        merchant_id=payment.merchant_id,
        reference=f"{payment.trx_id}-{number}",
        trx_id=payment.trx_id,
        number=number,
        method_code=method.code,
        provider=SANDBOX if payment.is_sandbox else method.provider,
        currency=payment.currency,
        amount_minor=payment.rest.minor,
        status=ChargeStatus.OPENING,
        created_at=datetime.now(UTC),
        channel=wish.channel,
    )


async def insert(connection: Connection, new: Charge) -> None:
    await store.insert_charge(connection, new)
    if new.provider != SANDBOX:
        await jobs.put(
            connection, new.merchant_id, CHECK, new.reference, in_seconds=FIRST_CHECK_SECONDS
        )


def short(text: str | None) -> str:
    """Shortens a text and removes control characters, for providers with strict limits."""
    shown = "".join(character if character.isprintable() else " " for character in text or "")
    return " ".join(shown.split())[:DESCRIPTION_LENGTH_MAX]
