"""Mandates: customers let the merchant debit a bank account, which they confirm at their bank.

A mandate is written before its request is sent, and its id is our reference at the provider. So an
unclear response is never repeated: the mandate is queried by its reference.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.banks.registry import BankRegistry
from manilla.customers.customer import CustomerRow
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.idempotency import Remember
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import MethodKind
from manilla.payments.payment import SANDBOX
from manilla.providers.port import (
    Adapter,
    Answer,
    Done,
    MandateOrder,
    MandateState,
    Refused,
    ReportedMandateStatus,
    Unknown,
)
from manilla.providers.rails import Rails
from manilla.saved_ways import revoking, store
from manilla.saved_ways.way import (
    EndedBy,
    MandateRefused,
    SavedWay,
    WayEvent,
    WayKind,
    WayStatus,
    next_status,
)

EVENTS = {
    ReportedMandateStatus.ACTIVE: WayEvent.ACTIVATED,
    ReportedMandateStatus.SUSPENDED: WayEvent.SUSPENDED,
    ReportedMandateStatus.FAILED: WayEvent.FAILED,
    ReportedMandateStatus.CANCELED: WayEvent.REVOKED,
    ReportedMandateStatus.EXPIRED: WayEvent.EXPIRED,
}
FIRST_QUERY_SECONDS, QUERY_SECONDS, CHECK_SECONDS = 15.0, 300.0, 24 * 3600.0
FORGET_SECONDS = 600.0
UNKNOWN_FOR = timedelta(hours=1)
SANDBOX_CODE = b"sandbox"


class MandateTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the customer is asked to confirm."""

    amount: Money  # the most that all debits together can take
    bank_code: str
    account_number: str
    customer_address: str
    description: str
    ends_at: datetime
    redirect_url: str


class MandateService:
    def __init__(
        self,
        db: Database,
        keyring: Keyring,
        catalogue: Catalogue,
        rails: Rails,
        registry: BankRegistry,
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._catalogue = catalogue
        self._rails = rails
        self._registry = registry

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.SAVED_WAY: Work(self.follow, concurrency=8)}

    async def create(
        self, caller: Caller, customer: CustomerRow, terms: MandateTerms, remember: Remember
    ) -> SavedWay:
        bank = self._registry.understand(terms.bank_code)
        adapter = None if caller.is_sandbox else self._adapter(caller, terms.amount)
        if not caller.is_sandbox and adapter is None:
            raise MandateRefused("No provider that is available to you has mandates.")
        if bank is None or not (customer.email and customer.phone):
            raise MandateRefused("The bank is unknown, or the customer has no email or phone.")
        provider = SANDBOX if adapter is None else adapter.provider
        label = f"{bank.name} •••• {terms.account_number[-4:]}"
        way = _new(caller, customer, terms, provider, label)
        async with self._db.transaction() as connection:
            await store.insert(connection, way)
            await jobs.put(
                *(connection, way.merchant_id, JobKind.SAVED_WAY, way.id),
                in_seconds=FIRST_QUERY_SECONDS,
            )
            await remember(connection, way)
        if adapter is None:
            return await self._apply(way, MandateState(status=ReportedMandateStatus.ACTIVE))
        crash.point("before_mandate_is_created")
        assert adapter.mandates is not None
        code = self._registry.code_at(adapter.provider, bank) or bank.code
        answer = await adapter.mandates.create(_order(way, customer, terms, code))
        crash.point("after_mandate_is_created")
        return await self._after(way, answer)

    def _adapter(self, caller: Caller, amount: Money) -> Adapter | None:
        """Returns the first account with mandates, in the platform's order of gateways."""
        offered = self._catalogue.offered(MethodKind.DEPOSIT, amount.currency, caller.environment)
        for method in offered:
            is_allowed = caller.gateways is None or method.code in caller.gateways
            adapter = self._rails.adapter(method.provider or "")
            if is_allowed and adapter is not None and adapter.mandates is not None:
                return adapter
        return None

    async def _after(self, way: SavedWay, answer: Answer[MandateState]) -> SavedWay:
        match answer:
            case Done(state):
                return await self._apply(way, state)
            case Refused(_, guidance):
                key = way.merchant_id, way.id
                await revoking.end(self._db, *key, WayEvent.FAILED, EndedBy.PROVIDER, guidance)
                raise MandateRefused(f"The provider has rejected the mandate: {guidance}")
        return way  # a job queries the mandate

    async def _apply(self, way: SavedWay, state: MandateState) -> SavedWay:
        """Applies what the provider reports about a mandate."""
        async with self._db.transaction() as connection:
            current = await store.way(connection, way.merchant_id, way.id, lock=True)
            assert current is not None
            code = SANDBOX_CODE if way.is_sandbox else (state.code or "").encode()
            if code and current.token_sealed is None:
                sealed = self._keyring.seal(code, way.context)
                await store.set_mandate(connection, current, sealed, state.action_url)
            elif current.status is WayStatus.PENDING and state.action_url:
                await store.set_mandate(connection, current, None, state.action_url)
            event = EVENTS.get(state.status)
            if event in (WayEvent.ACTIVATED, WayEvent.SUSPENDED):
                status = next_status(current, event)
                if status is not None and (code or current.token_sealed):
                    await store.set_status(connection, current, status)
            elif event is not None:
                await revoking.end_locked(connection, current, event, EndedBy.PROVIDER)
            changed = await store.way(connection, way.merchant_id, way.id)
            assert changed is not None
            return changed

    async def follow(self, job: Job) -> float | None:
        """Queries a mandate, or deletes an ended way at its provider."""
        way = await store.way(self._db, job.merchant_id, job.subject)
        if way is None:
            return None  # a webhook about a mandate that we did not create
        if way.status not in (WayStatus.PENDING, WayStatus.ACTIVE, WayStatus.SUSPENDED):
            return await self._forget(way)
        if way.kind is not WayKind.MANDATE or way.is_sandbox:
            return None
        adapter = self._rails.adapter(way.provider)
        if adapter is None or adapter.mandates is None:
            return CHECK_SECONDS
        answer = await adapter.mandates.state(way.id)
        is_missing = (
            isinstance(answer, Done) and answer.value.status is ReportedMandateStatus.NOT_FOUND
        )
        if isinstance(answer, Done) and not is_missing:
            way = await self._apply(way, answer.value)
        elif is_missing and datetime.now(UTC) - way.created_at >= UNKNOWN_FOR:
            key = way.merchant_id, way.id
            await self._end_missing(*key)
            return None
        return QUERY_SECONDS if way.status is WayStatus.PENDING else CHECK_SECONDS

    async def _end_missing(self, merchant_id: int, way_id: str) -> None:
        text = "The provider does not know the mandate."
        await revoking.end(self._db, merchant_id, way_id, WayEvent.FAILED, EndedBy.PROVIDER, text)

    async def _forget(self, way: SavedWay) -> float | None:
        """Deletes the token at the provider. Without a usable answer, tries again later."""
        adapter = None if way.is_sandbox else self._rails.adapter(way.provider)
        if adapter is not None and way.ended_by is not EndedBy.PROVIDER:
            answer = await self._delete(adapter, way)
            if not isinstance(answer, Done | Refused):
                return FORGET_SECONDS
        async with self._db.transaction() as connection:
            await store.clear_token(connection, way)
        return None

    async def _delete(self, adapter: Adapter, way: SavedWay) -> Answer[None]:
        token = None
        if way.token_sealed is not None:
            token = self._keyring.open(way.token_sealed, way.context).decode()
        if way.kind is WayKind.CARD:
            if adapter.cards is None or token is None:
                return Done(None)
            return await adapter.cards.forget(token)
        if adapter.mandates is None:
            return Done(None)
        if token is None:  # the response to the new mandate was lost
            found = await adapter.mandates.state(way.id)
            if not isinstance(found, Done):
                return found
            token = found.value.code
        if token is not None:
            return await adapter.mandates.cancel(token)
        is_new = datetime.now(UTC) - way.created_at < UNKNOWN_FOR
        return Unknown("the mandate may still arrive") if is_new else Done(None)


def _new(
    caller: Caller, customer: CustomerRow, terms: MandateTerms, provider: str, label: str
) -> SavedWay:
    now = datetime.now(UTC)
    until = f"{terms.ends_at:%d %B %Y}"
    return SavedWay(
        merchant_id=caller.merchant_id,
        id=trx_ids.WAY_IDS.new(caller.merchant_id),
        environment=caller.environment,
        customer_reference=customer.reference,
        kind=WayKind.MANDATE,
        status=WayStatus.PENDING,
        provider=provider,
        currency=terms.amount.currency,
        label=label,
        email=customer.email or "",
        consent_text=f"A mandate for debits of at most {terms.amount} in all, until {until}.",
        consented_at=None,
        created_at=now,
        updated_at=now,
        expires_on=terms.ends_at.date(),
        amount_minor=terms.amount.minor,
    )


def _order(
    way: SavedWay, customer: CustomerRow, terms: MandateTerms, bank_code: str
) -> MandateOrder:
    return MandateOrder(
        reference=way.id,
        amount=terms.amount,
        customer_name=customer.name,
        customer_email=way.email,
        customer_phone=customer.phone or "",
        customer_address=terms.customer_address,
        bank_code=bank_code,
        account_number=terms.account_number,
        description=terms.description,
        starts_at=way.created_at,
        ends_at=terms.ends_at,
        redirect_url=terms.redirect_url,
    )
