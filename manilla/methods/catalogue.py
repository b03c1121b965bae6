"""Caches deposit and withdrawal methods, and applies administrators' changes to them."""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

import msgspec

from manilla.audit import audit
from manilla.kit import changes, money
from manilla.kit.amount_input import parse_amount
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.price import PriceTerms
from manilla.methods import queries
from manilla.methods.method import AUTO, Flow, Method, MethodKind
from manilla.providers import accounts
from manilla.providers.kind import Credentials, ProviderKind
from manilla.providers.rails import Rails

TRANSFER_MIN_MINOR, TRANSFER_MAX_MINOR = 100_00, 5_000_000_00
_CODE = re.compile(r"[a-z0-9][a-z0-9_-]{1,59}")
NAME_LENGTH_MAX = 100


class ChangedMeanwhile(Refusal):
    status, code = 409, "CHANGED_MEANWHILE"
    message = (
        "Somebody else has changed this method since you opened it, so your changes were not saved."
        " Reload the page, or save again to overwrite the other changes."
    )


class UnknownMethod(Refusal):
    status, code = 404, "METHOD_NOT_FOUND"
    message = "There is no such method."


class BadMethod(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The method's data is not valid."


class MethodUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A change to a method, with amounts in major units. Fields that are None stay the same."""

    name: str | None = None
    active: bool | None = None
    position: int | None = None
    minimum: str | None = None
    maximum: str | None = None  # the text `none` removes the maximum
    fee_fixed: str | None = None
    fee_percent: Decimal | None = None
    fee_minimum: str | None = None  # the text `none` removes the minimum fee
    fee_maximum: str | None = None  # the text `none` removes the maximum fee


class NewMethod(msgspec.Struct, frozen=True):
    """The values chosen when a method is added. Only the name can change later."""

    kind: MethodKind
    code: str
    name: str
    currency: str
    provider: str | None = None
    flow: Flow | None = None


class Catalogue:
    """The cached methods, and functions that find the methods to offer."""

    def __init__(self, db: Database, watch: changes.ChangeWatch, rails: Rails) -> None:
        self._db = db
        self._rails = rails
        self._all: list[Method] = []
        self._by_id: dict[tuple[MethodKind, int], Method] = {}
        # Caches the results of `offered` until methods, credentials or drained rails change.
        self._offered: dict[tuple[MethodKind, str, Environment], list[Method]] = {}
        self._offered_of: tuple[int, Mapping[str, datetime]] = (-1, {})
        watch.follow(changes.METHODS, self._refresh)

    def all(self, kind: MethodKind) -> list[Method]:
        """Returns all methods of this kind, including those that cannot be used."""
        return [method for method in self._all if method.kind is kind]

    @property
    def currencies(self) -> list[str]:
        """The currencies of all methods, including those that cannot be used."""
        return sorted({method.currency for method in self._all})

    def by_id(self, kind: MethodKind, method_id: int) -> Method | None:
        return self._by_id.get((kind, method_id))

    def by_code(self, kind: MethodKind, code: str) -> Method | None:
        return next((m for m in self._all if m.kind is kind and m.code == code), None)

    def names(self, kind: MethodKind) -> dict[str, str]:
        """Maps the codes of all methods of this kind to their names."""
        return {method.code: method.name for method in self._all if method.kind is kind}

    def offered(self, kind: MethodKind, currency: str, environment: Environment) -> list[Method]:
        """Returns the active, usable methods in this currency, in display order."""
        current = (self._rails.loads, self._rails.health.drained)
        if self._offered_of != current:
            self._offered, self._offered_of = {}, current
        key = (kind, currency, environment)
        offered = self._offered.get(key)
        if offered is None:
            offered = self._offered[key] = [
                method
                for method in self._all
                if method.kind is kind
                and method.active
                and method.currency == currency
                and self.is_usable(method, environment)
            ]
        return offered

    def is_usable(self, method: Method, environment: Environment) -> bool:
        """Whether the provider is configured, enabled and, for payouts, not stopped."""
        if method.is_auto:
            return any(self.offered_rails(method, environment))
        if method.provider is None:
            return True
        is_offered = self._rails.is_offered(method.provider, method.direction, environment)
        return is_offered and not self.is_drained(method, environment)

    def is_drained(self, method: Method, environment: Environment) -> bool:
        """Whether an administrator has stopped new payouts. This is always False in the sandbox."""
        is_real_payout = (
            method.kind is MethodKind.WITHDRAW and environment is not Environment.SANDBOX
        )
        return is_real_payout and self._rails.is_drained(method.provider or "")

    def rails(self, currency: str) -> list[Method]:
        """Returns the active withdrawal methods that the automatic method can choose from."""
        return [
            method
            for method in self.all(MethodKind.WITHDRAW)
            if method.active and method.is_rail and method.currency == currency
        ]

    def offered_rails(self, auto: Method, environment: Environment) -> list[Method]:
        """Returns the rails that the automatic method can use now."""
        return [each for each in self.rails(auto.currency) if self.is_usable(each, environment)]

    def is_switched_off(self, method: Method) -> bool:
        """Whether the provider has valid credentials, but is disabled or, for payouts, stopped."""
        if method.is_auto:
            return any(map(self.is_switched_off, self.rails(method.currency)))
        current = self._rails.accounts.get(method.provider or "")
        if current is None or not current.is_valid:
            return False
        return not current.is_open(method.direction) or self.is_drained(
            method, Environment.PRODUCTION
        )

    async def _refresh(self, _known_version: int) -> None:
        self._all = await load(self._db)
        self._by_id = {(method.kind, method.id): method for method in self._all}
        self._offered = {}


async def load(db: Database | Connection) -> list[Method]:
    return await queries.methods(db)


async def get(db: Database | Connection, kind: MethodKind, code: str) -> Method:
    for method in await load(db):
        if (method.kind, method.code) == (kind, code):
            return method
    raise UnknownMethod(f"There is no {kind} method {code!r}.")


def terms(method: Method) -> tuple[object, ...]:
    """Returns the method's fee and limits, which merchants and customers see."""
    return method.fee, method.min_minor, method.max_minor


def only_changes(wanted: MethodUpdate, before: Method) -> MethodUpdate:
    """Returns the update without the fields that already have the new value."""
    given = msgspec.structs.asdict(wanted)
    unchanged = [
        name for name in given if preview(before, MethodUpdate(**{name: given[name]})) == before
    ]
    return msgspec.structs.replace(wanted, **dict.fromkeys(unchanged))


async def change(
    db: Database | Connection, kind: MethodKind, code: str, wanted: MethodUpdate
) -> Method:
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.METHODS)
        before = await _locked(connection, kind, code)
        after = _apply(wanted, before)
        await queries.update(connection, after)
        changed = audit.difference(msgspec.structs.asdict(before), msgspec.structs.asdict(after))
        if changed:
            await audit.record(connection, "method.change", f"method:{code}", changed=changed)
    return after


async def add(db: Database | Connection, new: NewMethod) -> Method:
    """Adds a method, which can be in a new currency."""
    async with transaction_of(db) as connection:
        await changes.announce(connection, changes.METHODS)
        blank = await check_new(connection, new)
        position = await queries.next_position(connection, new.kind)
        await queries.insert(connection, msgspec.structs.replace(blank, position=position))
        added = await _locked(connection, new.kind, new.code)
        await audit.record(connection, "method.add", f"method:{new.code}", method=added)
        return added


async def check_new(connection: Connection, new: NewMethod) -> Method:
    """Returns the method to be added, or raises an error if it is not valid."""
    _check_new(new)
    await _check_flow(connection, new.provider, new.flow)
    if await queries.lock(connection, new.code) is not None:
        raise BadMethod(f"A method {new.code!r} already exists.")
    method = Method(
        **msgspec.structs.asdict(new),
        id=0,
        active=True,
        position=0,
        min_minor=10 ** money.DECIMALS[new.currency],
        max_minor=None,
        fee=PriceTerms(),
    )
    _check(method)
    return method


async def add_missing(db: Database | Connection) -> None:
    """Adds missing methods as inactive: the automatic method and each account's methods."""
    declared = {AUTO_NGN.code: AUTO_NGN} | {
        method.code: method
        for provider, kind in (await accounts.load(db)).items()
        for method in _declared(provider, kind)
    }
    if declared.keys() <= {method.code for method in await load(db)}:
        return
    async with transaction_of(db) as connection:
        # `announce` also takes a lock, so only one process adds methods at a time.
        await changes.announce(connection, changes.METHODS)
        known = {method.code for method in await load(connection)}
        for method in declared.values():
            if method.code not in known:
                position = await queries.next_position(connection, method.kind)
                new = msgspec.structs.replace(method, position=position)
                await queries.insert(connection, new)
                await audit.record(connection, "method.add", f"method:{new.code}", method=new)


AUTO_NGN = Method(
    kind=MethodKind.WITHDRAW,
    id=0,
    code="auto_ngn",
    name="Automatic bank transfer",
    provider=AUTO,
    flow=None,
    currency="NGN",
    active=True,
    position=0,
    min_minor=TRANSFER_MIN_MINOR,
    max_minor=TRANSFER_MAX_MINOR,
    fee=PriceTerms(),
)


def _declared(provider: str, kind: ProviderKind) -> list[Method]:
    account = Credentials(provider, kind)
    blank = Method(
        kind=MethodKind.DEPOSIT,
        id=0,
        code=f"{provider}-ngn",
        name=f"{account.title} checkout",
        provider=provider,
        flow=Flow.HOSTED,
        currency="NGN",
        active=False,
        position=0,
        min_minor=100,
        max_minor=None,
        fee=PriceTerms(),
    )
    bank_transfer = msgspec.structs.replace(blank, name=f"{account.title} bank transfer")
    transfer = msgspec.structs.replace(
        bank_transfer,
        kind=MethodKind.WITHDRAW,
        code=f"{provider}_ngn_transfer",
        flow=None,
        min_minor=TRANSFER_MIN_MINOR,
        max_minor=TRANSFER_MAX_MINOR,
    )
    account_number = msgspec.structs.replace(
        bank_transfer, code=f"{provider}_ngn_va", flow=Flow.VIRTUAL_ACCOUNT
    )
    has_accounts = kind.capabilities.virtual_accounts
    return [blank, *([account_number] if has_accounts else []), transfer]


def _check_new(new: NewMethod) -> None:
    """Validates the immutable fields of a new method."""
    if not _CODE.fullmatch(new.code):
        raise BadMethod("A code must have 2 to 60 of the characters a-z, 0-9, - and _.")
    if new.currency not in money.DECIMALS:
        raise BadMethod(f"{new.currency!r} is not an ISO 4217 currency.")
    if new.kind is MethodKind.DEPOSIT and (new.provider is None or new.flow is None):
        raise BadMethod("A deposit method needs a provider and a flow.")
    if new.kind is MethodKind.WITHDRAW and new.flow is not None:
        raise BadMethod("A withdrawal method cannot have a flow.")


async def _check_flow(connection: Connection, provider: str | None, flow: Flow | None) -> None:
    if provider is None:
        return
    kind = await accounts.kind_of(connection, provider)
    if flow is Flow.VIRTUAL_ACCOUNT and not kind.capabilities.virtual_accounts:
        raise BadMethod(f"{kind.title} has no virtual accounts.")


def preview(method: Method, wanted: MethodUpdate) -> Method:
    """Returns the method with the change applied, without storing it."""
    return _apply(wanted, method)


async def _locked(connection: Connection, kind: MethodKind, code: str) -> Method:
    method = await queries.lock(connection, code)
    if method is None or method.kind is not kind:
        raise UnknownMethod(f"There is no {kind} method {code!r}.")
    return method


def _apply(wanted: MethodUpdate, before: Method) -> Method:
    currency = before.currency
    fee = PriceTerms(
        fixed_minor=_minor(wanted.fee_fixed, currency, before.fee.fixed_minor),
        percent=before.fee.percent if wanted.fee_percent is None else wanted.fee_percent,
        minimum_minor=_optional_minor(wanted.fee_minimum, currency, before.fee.minimum_minor),
        maximum_minor=_optional_minor(wanted.fee_maximum, currency, before.fee.maximum_minor),
    )
    after = msgspec.structs.replace(
        before,
        name=before.name if wanted.name is None else wanted.name,
        active=before.active if wanted.active is None else wanted.active,
        position=before.position if wanted.position is None else wanted.position,
        min_minor=_minor(wanted.minimum, currency, before.min_minor),
        max_minor=_optional_minor(wanted.maximum, currency, before.max_minor),
        fee=fee,
    )
    _check(after)
    return after


def _check(method: Method) -> None:
    fee = method.fee
    if not 1 <= len(method.name) <= NAME_LENGTH_MAX or not method.name.isprintable():
        raise BadMethod(f"A name has 1 to {NAME_LENGTH_MAX} printable characters.")
    if method.max_minor is not None and method.max_minor < method.min_minor:
        raise BadMethod("The maximum is below the minimum.")
    if not (fee.percent.is_finite() and 0 <= fee.percent <= 100):
        raise BadMethod("The fee must be between 0 and 100 percent.")
    if fee.percent != round(fee.percent, 4):
        raise BadMethod("The fee percentage can have at most 4 decimals.")
    if fee.maximum_minor is not None and fee.maximum_minor < (fee.minimum_minor or 0):
        raise BadMethod("The fee's maximum is below its minimum.")


def _minor(text: str | None, currency: str, before: int) -> int:
    if text is None:
        return before
    try:
        minor = parse_amount(text, currency).minor
    except money.MoneyError as error:
        raise BadMethod(str(error)) from None
    return minor


def _optional_minor(text: str | None, currency: str, before: int | None) -> int | None:
    if text is None:
        return before
    return None if text == "none" else _minor(text, currency, 0)
