"""Charges: attempts to collect a payment through a provider.

A charge is saved before it is sent, and its status is queried until it is final.
"""

from datetime import UTC, datetime, timedelta

from manilla.kit import jobs
from manilla.kit.crypto import Keyring
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.ledger.job_kinds import JobKind
from manilla.merchants import merchants
from manilla.merchants.directory import Caller
from manilla.methods.method import Flow, Method
from manilla.payments import states, store
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment import Charge, ChargeStatus, Payment, PaymentStatus
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import (
    Adapter,
    Answer,
    ChargeOrder,
    ChargeState,
    Done,
    EventKind,
    HostedCheckout,
    Refused,
    Unknown,
    VirtualAccount,
)
from manilla.providers.rails import Rails

CHECK = JobKind.CHARGE
FIRST_CHECK_SECONDS = 10
TRIES_MAX = 20
OPENING_SECONDS_MAX = 30  # longer than any call to a provider takes
DESCRIPTION_LENGTH_MAX = 200
SANDBOX_BVN = "22222222222"
NO_NAME = "Customer"


class PaymentClosed(Refusal):
    status, code = 409, "ALREADY_DECIDED"
    message = "This payment is closed. Please start again at the shop."


class TooManyCharges(Refusal):
    status, code = 429, "TOO_MANY_TRIES"
    message = "There were too many attempts to pay. Please start again at the shop."


class GatewayRefused(Refusal):
    status, code = 422, "PAYMENT_DECLINED"
    message = "This way to pay did not work. Please choose another one."


class GatewayUnavailable(Refusal):
    status, code = 503, "SERVICE_UNAVAILABLE"
    message = "This way to pay is unavailable right now. Please try again or choose another."


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
    ) -> None:
        self._db = db
        self._platform = platform
        self._keyring = keyring
        self._rails = rails
        self._links = links
        self._base_url = base_url

    async def open(self, payment: Payment, method: Method, caller: Caller) -> Charge:
        """Returns the open charge for this method, or creates one."""
        assert method.provider is not None
        assert not payment.is_sandbox, "no provider is called for the sandbox"
        adapter = self._rails.adapter(method.provider)
        if adapter is None:
            raise GatewayUnavailable
        charge, is_new = await self._reserve(payment, method)
        if not is_new:
            return charge
        answer = await self._send(adapter, payment, method, caller, charge)
        await self._save(charge, answer)
        saved = await store.charge(self._db, charge.merchant_id, charge.reference)
        assert saved is not None
        return saved

    async def _reserve(self, payment: Payment, method: Method) -> tuple[Charge, bool]:
        """Returns the charge to use, and whether it is new.

        Locks the payment's row, so that a double click, a second tab or a second customer get the
        same charge.
        """
        async with self._db.transaction() as connection:
            current = await store.payment(
                connection, payment.merchant_id, payment.trx_id, lock=True
            )
            assert current is not None
            if current.status is not PaymentStatus.PENDING:
                raise PaymentClosed
            earlier = await store.charges(connection, payment.merchant_id, payment.trx_id)
            # Reuse only the latest charge, because a customer who returns from another method
            # expects a new one.
            latest = next((charge for charge in reversed(earlier) if charge.is_undecided), None)
            if latest and latest.method_code == method.code and _is_usable(latest):
                return latest, False
            if len(earlier) >= TRIES_MAX:
                raise TooManyCharges
            return await _insert(connection, payment, method, len(earlier) + 1), True

    async def _send(
        self,
        adapter: Adapter,
        payment: Payment,
        method: Method,
        caller: Caller,
        charge: Charge,
    ) -> Answer[HostedCheckout] | Answer[VirtualAccount]:
        order = ChargeOrder(
            reference=charge.reference,
            amount=charge.amount,
            description=_short(payment.description) or f"Payment to {caller.name}",
            customer_name=_short(payment.customer_name) or NO_NAME,
            customer_email=payment.customer_email
            or self._platform.now.customer_email(self._base_url),
            merchant_name=_short(caller.name) or NO_NAME,
            redirect_url=self._links.url(payment.trx_id, payment.expires_at, "/return"),
            notification_url=f"{self._base_url}/webhooks/{charge.provider}",
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

    async def _save(
        self, charge: Charge, answer: Answer[HostedCheckout] | Answer[VirtualAccount]
    ) -> None:
        match answer:
            case Done(HostedCheckout(checkout_url)):
                await store.set_checkout_url(self._db, charge, checkout_url)
            case Done(VirtualAccount() as account) if account.amount == charge.amount:
                await store.set_account(self._db, charge, account)
            case Done(VirtualAccount() as account):
                await store.abandon_charge(
                    self._db, charge, f"the virtual account expects {account.amount}"
                )
                raise GatewayRefused
            case Refused(_, guidance):
                await store.abandon_charge(self._db, charge, guidance)
                raise GatewayRefused
            case Unknown(reason):
                # The customer was not shown how to pay this charge. If it is paid anyway, the
                # provider's status applies, as for any charge.
                await store.abandon_charge(self._db, charge, reason)
                raise GatewayUnavailable

    async def ask(self, charge: Charge) -> Answer[ChargeState]:
        """Queries the charge's status at the provider, and applies it."""
        provider = charge.provider
        answer = await self._rails.state(EventKind.CHARGE, provider, charge.reference)
        if isinstance(answer, Done):
            await states.conclude(self._db, charge, answer.value)
        return answer

    async def ask_about_all(self, payment: Payment) -> None:
        for charge in await store.charges(self._db, payment.merchant_id, payment.trx_id):
            if charge.is_undecided:
                await self.ask(charge)


def _is_usable(charge: Charge) -> bool:
    """Whether a customer who chooses the method again can continue with this charge."""
    now = datetime.now(UTC)
    if charge.status is ChargeStatus.OPENING:
        return now - charge.created_at < timedelta(seconds=OPENING_SECONDS_MAX)
    ends = charge.account_expires_at
    return charge.status is ChargeStatus.OPEN and (ends is None or ends > now)


async def _insert(connection: Connection, payment: Payment, method: Method, number: int) -> Charge:
    assert method.provider is not None
    new = Charge(
        merchant_id=payment.merchant_id,
        reference=f"{payment.trx_id}-{number}",
        trx_id=payment.trx_id,
        number=number,
        method_code=method.code,
        provider=method.provider,
        currency=payment.currency,
        amount_minor=payment.quote.customer_pays.minor,
        status=ChargeStatus.OPENING,
        created_at=datetime.now(UTC),
    )
    await store.insert_charge(connection, new)
    await jobs.put(
        connection, new.merchant_id, CHECK, new.reference, in_seconds=FIRST_CHECK_SECONDS
    )
    return new


def _short(text: str | None) -> str:
    """Shortens a text and removes control characters, for providers with strict limits."""
    shown = "".join(character if character.isprintable() else " " for character in text or "")
    return " ".join(shown.split())[:DESCRIPTION_LENGTH_MAX]
