"""Charges a saved way to pay, without the customer.

A charge is an ordinary payment with exactly one charge. The row of the charge is written before the
request is sent, and only the process that has written it sends the request. So a way is never
charged twice for one payment, and after an unclear response only status queries follow.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import crash
from manilla.kit.crypto import Keyring, SealError
from manilla.kit.database.connections import Connection, Database
from manilla.kit.fields import api_field
from manilla.kit.jobs import Job, Work
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.idempotency import Replayed
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Flow, Method
from manilla.payments import charges as charging
from manilla.payments import commission, eligibility, sandbox_amounts, states
from manilla.payments import store as payments
from manilla.payments.charges import ChargeService
from manilla.payments.fields import way_of
from manilla.payments.initiate import (
    PaymentInfo,
    PaymentInitiation,
    PaymentOrder,
    PaymentSession,
)
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment import Charge, ChargeStatus, Payment, PaymentStatus
from manilla.payments.states import PaymentEvent
from manilla.platform.settings import CurrentSettings
from manilla.prices.price import Way
from manilla.providers.port import (
    Adapter,
    Answer,
    Channel,
    Direction,
    Done,
    Refused,
    Unknown,
    WayCharge,
    WayOrder,
)
from manilla.providers.rails import Rails
from manilla.providers.replies import NO_CHARGE
from manilla.saved_ways import declines, fields, revoking, store
from manilla.saved_ways.declines import ChargeDecline
from manilla.saved_ways.way import (
    EndedBy,
    RetryLimit,
    SavedWay,
    WayEvent,
    WayKind,
    WayNotFound,
    WayUnusable,
    moment_before,
)

FIRST_NUMBER = 1  # a charge of a saved way is its payment's only charge
RETRY_LIMIT, NOT_SENT = "retry limit", "not sent"
# A request that a provider does not know for so long never arrived there.
UNKNOWN_FOR = timedelta(hours=1)
LATER_SECONDS = 6 * 3600.0
NO_NAME = "Customer"
# Amounts in minor units that decide the outcome of a sandbox charge, besides those of payments.
CONFIRMED_IN_SANDBOX, EXPIRED_IN_SANDBOX = 66_664, 66_665


class WayChargeInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A charge of a saved way to pay. It is a payment, which `verify-payment` describes too."""

    trx_id: str
    status: Annotated[
        str,
        api_field(
            "`pending`: the result is not known yet. Wait for the notification, and never repeat "
            "the charge under another reference.",
            enum=[str(each) for each in PaymentStatus],
        ),
    ]
    info: PaymentInfo
    customer_action_url: Annotated[
        str | None, api_field("The page on which the customer must confirm a pending charge.")
    ] = None
    decline: Annotated[
        ChargeDecline | None,
        api_field("Why the charge was declined. Omitted unless `status` is `failed`."),
    ] = None


class WayCharges:
    def __init__(
        self,
        db: Database,
        keyring: Keyring,
        platform: CurrentSettings,
        catalogue: Catalogue,
        rails: Rails,
        initiation: PaymentInitiation,
        charges: ChargeService,
        links: CheckoutLinks,
        directory: Directory,
    ) -> None:
        self._directory = directory
        self._db = db
        self._keyring = keyring
        self._platform = platform
        self._catalogue = catalogue
        self._rails = rails
        self._initiation = initiation
        self._charges = charges
        self._links = links

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.WAY_CHARGE: Work(self.finish, concurrency=16)}

    async def charge(
        self, caller: Caller, way_id: str, order: PaymentOrder, ticket: RateTicket
    ) -> WayChargeInfo:
        """Charges a way of the order's customer."""
        way = await store.way(self._db, caller.merchant_id, way_id)
        is_theirs = way is not None and way.customer_reference == order.customer_reference
        if way is None or not is_theirs or way.environment is not caller.environment:
            raise WayNotFound
        order = await self._checked(caller, way, order)
        taken = await self._initiation.initiate(caller, order, ticket)
        if isinstance(taken, Replayed):
            return await self.replay(way.tenant, taken)
        crash.point("before_way_charge_starts")
        await self._start(caller, taken.trx_id, way)
        return await self._describe(caller.merchant_id, taken)

    async def replay(self, tenant: Tenant, first: Replayed) -> WayChargeInfo:
        """Returns the charge as it is now, for a repeated request."""
        session = msgspec.json.decode(first.body, type=PaymentSession)
        return await self._describe(tenant.merchant_id, session)

    async def _checked(self, caller: Caller, way: SavedWay, order: PaymentOrder) -> PaymentOrder:
        """Returns the order with the way, whose price counts."""
        obstacle = way.obstacle
        if obstacle is not None:
            raise WayUnusable(details={"reason": declines.rule_of(obstacle).code})
        if way.currency != order.currency_code:
            raise WayUnusable(f"This way to pay is in {way.currency}.")
        amount = Money.of(order.payment_amount, order.currency_code)
        method = self._method(caller, way, amount)
        if method is not None:
            prices = self._initiation.prices
            priced = commission.quote(
                prices, caller, amount, method=method.code, way=_price_way(way)
            )
            method = self._method(caller, way, priced.quote.customer_pays)
        if method is None:
            raise WayUnusable("The provider of this way to pay is not available for this charge.")
        if await self._is_declined_too_often(self._db, way):
            raise RetryLimit
        return msgspec.structs.replace(
            order, saved_way=fields.of_payment(way), method=method.code, way=_price_way(way)
        )

    async def _is_declined_too_often(self, db: Database | Connection, way: SavedWay) -> bool:
        now = self._platform.now
        since = moment_before(now.way_declines_days)
        declined = await payments.declines_of_way(db, way.merchant_id, way.id, since)
        return declined >= now.way_declines_max

    def _method(self, caller: Caller, way: SavedWay, customer_pays: Money) -> Method | None:
        """Returns the card gateway of the way's provider, if the merchant can use it now."""
        catalogue, about = self._catalogue, (caller, customer_pays, ())
        found = eligibility.eligible(catalogue, self._rails, *about)
        if way.is_sandbox:
            found = found or eligibility.conceivable(catalogue, *about)
        elif self._adapter(way) is None:
            return None
        hosted = (each for each in found if each.flow is Flow.HOSTED)
        return next((m for m in hosted if way.is_sandbox or m.provider == way.provider), None)

    def _adapter(self, way: SavedWay) -> Adapter | None:
        if not self._rails.is_offered(way.provider, Direction.PAY_IN, way.environment):
            return None
        adapter = self._rails.adapter(way.provider)
        if adapter is None:
            return None
        calls = adapter.cards if way.kind is WayKind.CARD else adapter.mandates
        return None if calls is None else adapter

    async def _start(self, caller: Caller, trx_id: str, way: SavedWay) -> None:
        """Writes the charge, and sends it if no other process has written it before."""
        merchant_id = caller.merchant_id
        async with self._db.transaction() as connection:
            reserved = await self._reserve(connection, caller, trx_id, way)
            crash.point("before_way_charge_commit")
        if reserved is None:
            return
        payment, charge, locked = reserved
        crash.point("before_way_charge_is_sent")
        if payment.is_sandbox:
            await self._send_in_sandbox(payment, charge)
            return
        answer = await self._send(payment, charge, locked)
        crash.point("after_way_charge_is_sent")
        await self._apply(charge, answer)
        await self._learn(merchant_id, trx_id)

    async def _reserve(
        self, connection: Connection, caller: Caller, trx_id: str, way: SavedWay
    ) -> tuple[Payment, Charge, SavedWay] | None:
        payment = await payments.payment(connection, caller.merchant_id, trx_id, lock=True)
        assert payment is not None
        if payment.status is not PaymentStatus.PENDING:
            return None
        if await payments.charges(connection, caller.merchant_id, trx_id):
            return None
        # Lock the way, so that a customer who revokes it now is either first or too late.
        locked = await store.way(connection, caller.merchant_id, way.id, lock=True)
        assert locked is not None
        method = self._method(caller, locked, payment.quote.customer_pays)
        charge = _new_charge(payment, locked, method)
        await charging.insert(connection, charge)
        problem = await self._problem(connection, caller, payment, locked)
        if problem is None and method is not None:
            return payment, charge, locked
        await states.decline_locked(connection, payment, charge, problem or NOT_SENT)
        return None

    async def _problem(
        self, connection: Connection, caller: Caller, payment: Payment, way: SavedWay
    ) -> str | None:
        """Returns why the charge must not be sent, as the reason of its decline."""
        if way.obstacle is not None:
            return way.obstacle
        if await self._is_declined_too_often(connection, way):
            return RETRY_LIMIT
        is_late = datetime.now(UTC) >= payment.expires_at
        can_pay = eligibility.can_take_payments(caller, payment.currency)
        return NOT_SENT if is_late or not can_pay else None

    async def _send(self, payment: Payment, charge: Charge, way: SavedWay) -> Answer[WayCharge]:
        adapter = self._adapter(way)
        if adapter is None:
            return Unknown("the account is not configured any more", never_sent=True)
        assert way.token_sealed is not None
        try:
            token = self._keyring.open(way.token_sealed, way.context).decode()
        except SealError:
            return Unknown("the token cannot be decrypted", never_sent=True)
        order = WayOrder(
            reference=charge.reference,
            amount=charge.amount,
            token=token,
            customer_email=way.email,
            customer_name=payment.customer_name or NO_NAME,
            description=charging.short(payment.description) or f"Payment {payment.ref_trx}",
        )
        if way.kind is WayKind.CARD:
            assert adapter.cards is not None
            return await adapter.cards.charge(order)
        assert adapter.mandates is not None
        return await adapter.mandates.debit(order)

    async def _apply(self, charge: Charge, answer: Answer[WayCharge]) -> None:
        """Applies the response. Only a query tells whether an accepted charge was paid."""
        match answer:
            case Done(WayCharge(action_url=str(url))):
                await self._charges.save_checkout_url(charge, url)
            case Refused(_, guidance):
                await states.decline(self._db, charge, guidance)
            case Unknown(never_sent=True):
                await states.decline(self._db, charge, NOT_SENT)
            case _:
                await self._charges.ask(charge)

    async def _send_in_sandbox(self, payment: Payment, charge: Charge) -> None:
        key = payment.merchant_id, payment.trx_id
        failure = sandbox_amounts.failure(payment)
        by_amount = payment.scenario is None and payment.amount_minor
        if failure is not None:
            await states.decline(self._db, charge, failure)
        elif by_amount == EXPIRED_IN_SANDBOX:
            await states.decline(self._db, charge, "expired card")
        elif by_amount == CONFIRMED_IN_SANDBOX:
            url = self._links.url(payment.trx_id, payment.expires_at, charging.SANDBOX_PAGE)
            await self._charges.save_checkout_url(charge, url)
        elif not sandbox_amounts.stays_pending(payment):
            await states.end_in_sandbox(self._db, *key, PaymentEvent.PAID)

    async def finish(self, job: Job) -> float | None:
        """Sends a charge whose process crashed, and ends one that never arrived or is too late."""
        payment = await payments.payment(self._db, job.merchant_id, job.subject)
        assert payment is not None
        if payment.status is not PaymentStatus.PENDING:
            await self._learn(job.merchant_id, job.subject)
            return None
        found = await payments.charges(self._db, job.merchant_id, job.subject)
        if not found:
            await self._start_again(payment)
            return UNKNOWN_FOR.total_seconds()
        return await self._follow(payment, found[0])

    async def _start_again(self, payment: Payment) -> None:
        caller = await self._directory.of(payment.environment, payment.merchant_id)
        saved = way_of(payment)
        assert saved is not None
        way = await store.way(self._db, payment.merchant_id, saved.id)
        assert way is not None
        await self._start(caller, payment.trx_id, way)

    async def _follow(self, payment: Payment, charge: Charge) -> float | None:
        """Queries a charge that has no result yet. Returns the seconds until the next query."""
        now = datetime.now(UTC)
        left = (payment.expires_at - now).total_seconds()
        waits_for_customer = payment.is_sandbox or charge.checkout_url is not None
        if waits_for_customer and left > 0:
            return left
        answer = None if payment.is_sandbox else (await self._charges.ask(charge))[0]
        missing = UNKNOWN_FOR - (now - charge.created_at)
        [charge] = await payments.charges(self._db, payment.merchant_id, payment.trx_id)
        # The provider's charge can expire, and the previous version ends charges alone.
        has_ended = charge.status in (ChargeStatus.FAILED, ChargeStatus.EXPIRED)
        if waits_for_customer or has_ended:
            await states.expire(self._db, payment.merchant_id, payment.trx_id)
        elif answer == Done(NO_CHARGE) and missing <= timedelta(0):
            await states.decline(self._db, charge, NOT_SENT)
        current = await payments.payment(self._db, payment.merchant_id, payment.trx_id)
        assert current is not None
        if current.status is not PaymentStatus.PENDING:
            await self._learn(payment.merchant_id, payment.trx_id)
            return None
        return max(missing.total_seconds(), 0.0) or LATER_SECONDS

    async def _learn(self, merchant_id: int, trx_id: str) -> None:
        """Ends a way whose charge was declined for good."""
        for charge in await payments.charges(self._db, merchant_id, trx_id):
            rule = declines.rule_of(charge.reason or "")
            if charge.status is ChargeStatus.FAILED and rule.ends_way and charge.way_id:
                is_expired = rule.code == declines.EXPIRED_CARD
                event = WayEvent.EXPIRED if is_expired else WayEvent.REJECTED
                key = merchant_id, charge.way_id
                await revoking.end(self._db, *key, event, EndedBy.PROVIDER, rule.meaning)

    async def _describe(self, merchant_id: int, session: PaymentSession) -> WayChargeInfo:
        payment = await payments.payment(self._db, merchant_id, session.trx_id)
        assert payment is not None
        charges = await payments.charges(self._db, merchant_id, session.trx_id)
        charge = charges[0] if charges else None
        is_pending = payment.status is PaymentStatus.PENDING
        has_failed = payment.status is PaymentStatus.FAILED
        return WayChargeInfo(
            trx_id=payment.trx_id,
            status=payment.status,
            info=session.info,
            customer_action_url=charge.checkout_url if charge and is_pending else None,
            decline=declines.decline_of(charge.reason or "") if charge and has_failed else None,
        )


def _price_way(way: SavedWay) -> Way | None:
    return Way.CARD if way.kind is WayKind.CARD else None


def _new_charge(payment: Payment, way: SavedWay, method: Method | None) -> Charge:
    return Charge(
        merchant_id=payment.merchant_id,
        reference=f"{payment.trx_id}-{FIRST_NUMBER}",
        trx_id=payment.trx_id,
        number=FIRST_NUMBER,
        method_code=way.kind if method is None else method.code,
        provider=way.provider,
        currency=payment.currency,
        amount_minor=payment.rest.minor,
        status=ChargeStatus.OPENING,
        created_at=datetime.now(UTC),
        channel=Channel.CARD if way.kind is WayKind.CARD else None,
        way_id=way.id,
    )
