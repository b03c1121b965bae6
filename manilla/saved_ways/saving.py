"""Saves the card of a payment, if the customer has approved this on checkout."""

from datetime import UTC, datetime

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.languages.language import ENGLISH, CustomerLanguage
from manilla.ledger import trx_ids
from manilla.payments import store as payments
from manilla.payments.payment import SANDBOX, Charge, Payment
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import ReusableCard
from manilla.saved_ways import fields, store
from manilla.saved_ways.way import SavedWay, WayEvent, WayKind, WayStatus, next_status

SANDBOX_CARD = ReusableCard(token=SANDBOX, brand="visa", last4="4081")
SANDBOX_CONSENT = "The sandbox completed this payment without a customer."


def consent_text(merchant_name: str, language: CustomerLanguage = ENGLISH) -> str:
    """Returns what the customer approves. Checkout shows exactly this text in this language."""
    return language.gettext(
        "I allow %(merchant)s to save this card and to charge it later, for amounts that I have"
        " agreed with %(merchant)s. I can withdraw this at any time, with the link in each receipt."
    ) % {"merchant": merchant_name}


class CardSaving:
    def __init__(
        self, db: Database, keyring: Keyring, platform: CurrentSettings, base_url: str
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._platform = platform
        self._base_url = base_url

    async def set_consent(self, charge: Charge, text: str, *, is_given: bool) -> None:
        """Stores whether the customer lets the merchant save the card that pays the charge."""
        async with self._db.transaction() as connection:
            key = charge.merchant_id, charge.trx_id
            payment = await payments.payment(connection, *key, lock=True)
            assert payment is not None
            if not payment.saves_way:
                return
            if not is_given:
                await payments.set_way(connection, payment, None)
                await store.delete_pending(connection, *key)
                return
            way = await store.of_payment(connection, *key, lock=True)
            if way is None:
                way = _new(payment, charge.provider, text)
                await store.insert(connection, way)
            await payments.set_way(connection, payment, way.id)

    async def keep(self, charge: Charge, card: ReusableCard) -> None:
        """Saves the card of a paid charge. Repeated reports of the charge change nothing."""
        assert charge.way_id is not None
        async with self._db.transaction() as connection:
            key = charge.merchant_id, charge.trx_id
            payment = await payments.payment(connection, *key, lock=True)
            way = await store.way(connection, charge.merchant_id, charge.way_id, lock=True)
            assert payment is not None
            if way is None or way.payment_trx_id != payment.trx_id:
                return  # the charge uses a way that another payment has saved
            await self._activate(connection, payment, way, charge.provider, card)

    async def keep_in_sandbox(self, payment: Payment) -> None:
        """Saves a test card. Without a customer on checkout, the sandbox gives the consent."""
        async with self._db.transaction() as connection:
            key = payment.merchant_id, payment.trx_id
            current = await payments.payment(connection, *key, lock=True)
            assert current is not None
            way = await store.of_payment(connection, *key, lock=True)
            if way is None:
                if await payments.charges(connection, *key):
                    return  # a customer chose how to pay, and did not approve
                way = _new(current, SANDBOX, SANDBOX_CONSENT)
                await store.insert(connection, way)
            await self._activate(connection, current, way, SANDBOX, SANDBOX_CARD)

    async def _activate(
        self,
        connection: Connection,
        payment: Payment,
        way: SavedWay,
        provider: str,
        card: ReusableCard,
    ) -> None:
        if next_status(way, WayEvent.ACTIVATED) is None:
            return
        saved = await store.activate(
            connection,
            way,
            provider=provider,
            label=f"{card.brand.title() or 'Card'} •••• {card.last4}",
            email=payment.customer_email or self._platform.now.customer_email(self._base_url),
            token_sealed=self._keyring.seal(card.token.encode(), way.context),
            expires_on=card.expires,
        )
        key = payment.merchant_id, payment.trx_id
        await payments.set_saved_way(connection, *key, fields.of_payment(saved))


def _new(payment: Payment, provider: str, consent: str) -> SavedWay:
    assert payment.customer_reference is not None
    now = datetime.now(UTC)
    return SavedWay(
        merchant_id=payment.merchant_id,
        id=trx_ids.WAY_IDS.new(payment.merchant_id),
        environment=payment.environment,
        customer_reference=payment.customer_reference,
        kind=WayKind.CARD,
        status=WayStatus.PENDING,
        provider=provider,
        currency=payment.currency,
        label="",
        email="",
        consent_text=consent,
        consented_at=now,
        created_at=now,
        updated_at=now,
        payment_trx_id=payment.trx_id,
    )
