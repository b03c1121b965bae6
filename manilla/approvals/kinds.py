"""Defines the changes that may need approval, and how to check, apply and show them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from manilla.approvals import dispute_record, provider_rules, queries
from manilla.approvals.dispute_record import DisputeRecord
from manilla.audit.actor import current
from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction
from manilla.disputes.dispute import Dispute
from manilla.invoices import remittance
from manilla.invoices.remittance import Remitted, TaxRemittance
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.merchants.queries import MerchantRow
from manilla.merchants.wallets import FundingResult
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts.protection import protection
from manilla.payouts.protection.protection import (
    AccountAddition,
    LockChange,
    ProtectionChange,
    ThresholdChange,
)
from manilla.people import second_person
from manilla.people.company import providers as sign_in_providers
from manilla.people.company.providers import SignInProviderChange
from manilla.platform import setting_texts, settings
from manilla.prices.changes import (
    PlanAssignment,
    PlanChange,
    PlanWithdrawal,
    PriceChange,
    TaxAddition,
)
from manilla.providers import accounts, credentials
from manilla.providers.kind import Credentials
from manilla.resolutions import resolutions

TOLERANCE_SECONDS_MAX = 900


class SettingChange(msgspec.Struct, frozen=True, tag="setting"):
    key: str
    value: str


class WalletFunding(msgspec.Struct, frozen=True, tag="wallet_funding"):
    merchant_id: int
    environment: Environment
    amount: Money
    reason: str
    # True if the requester is not allowed to move money alone, so that every amount needs approval.
    needs_second: bool = False


class WalletAdjustment(msgspec.Struct, frozen=True, tag="wallet_adjustment"):
    merchant_id: int
    environment: Environment
    amount: Money
    reason: str
    needs_second: bool = False
    trx_id: str | None = None  # prevents a second adjustment if the form is submitted twice


class ProviderChange(msgspec.Struct, frozen=True, tag="provider"):
    provider: str
    wanted: Mapping[str, str]


class ProviderClearing(msgspec.Struct, frozen=True, tag="provider_clearing"):
    provider: str


class ProviderAddition(msgspec.Struct, frozen=True, tag="provider_addition"):
    """Adds an account for a kind of provider. `provider` is the new account's name."""

    kind: str
    provider: str


class MerchantChange(msgspec.Struct, frozen=True, tag="merchant"):
    merchant_id: int
    wanted: merchants.MerchantUpdate


class MethodChange(msgspec.Struct, frozen=True, tag="method"):
    """A change to a deposit or withdrawal method.

    `wanted` has only the changed fields, so a later approval does not revert other changes.
    """

    kind: MethodKind
    code: str
    wanted: catalogue.MethodUpdate


class MethodAddition(msgspec.Struct, frozen=True, tag="method_addition"):
    """Adds a deposit or withdrawal method, which is active immediately."""

    method: catalogue.NewMethod

    @property
    def code(self) -> str:
        return self.method.code


class CaseResolution(msgspec.Struct, frozen=True, tag="case"):
    """Resolves a case. The approver sees the case's `merchant_id` and `amount`.

    `merchant_id` is None for a case without a merchant, which the database stores as 0.
    """

    case_id: int
    action: CaseAction
    note: str
    merchant_id: int | None
    amount: Money | None
    needs_second: bool = False

    @property
    def owner_id(self) -> int:
        """The case's merchant in the database. Two merchants can have cases with one number."""
        return self.merchant_id or 0

    @property
    def subject(self) -> str:
        return f"case:{self.case_id}"

    def describe(self) -> dict[str, Any]:
        about = {"case": self.case_id, "action": self.action, "note": self.note}
        return about if self.amount is None else {"amount": self.amount, **about}


PlatformChange = (
    SettingChange
    | WalletFunding
    | WalletAdjustment
    | ProviderChange
    | ProviderClearing
    | ProviderAddition
    | MerchantChange
    | MethodChange
    | MethodAddition
    | CaseResolution
    | DisputeRecord
    | PlanChange
    | PlanWithdrawal
    | PlanAssignment
    | TaxAddition
    | TaxRemittance
)
# The console's team decides on its own company sign-in, and a merchant's team on the merchant's.
TeamChange = ThresholdChange | LockChange | AccountAddition | SignInProviderChange
Change = PlatformChange | TeamChange
Result = FundingResult | Credentials | MerchantRow | Method | Case | Dispute | Remitted | int | None


async def apply(connection: Connection, keyring: Keyring, change: Change) -> Result:
    if isinstance(change, PriceChange):
        await change.apply(connection)
        return None
    return await _apply(connection, keyring, change)


async def _apply(
    connection: Connection, keyring: Keyring, change: PlatformChange | TeamChange
) -> Result:
    result: Result = None
    match change:
        case SettingChange():
            await settings.change(connection, change.key, change.value)
        case WalletFunding():
            wallet = change.merchant_id, change.environment
            result = await wallets.fund(connection, *wallet, change.amount, change.reason)
        case WalletAdjustment():
            wallet = change.merchant_id, change.environment
            result = await wallets.adjust(
                connection, *wallet, change.amount, change.reason, change.trx_id
            )
        case ProviderChange():
            result = await credentials.change(connection, keyring, change.provider, change.wanted)
        case ProviderClearing():
            await credentials.clear(connection, change.provider)
        case ProviderAddition():
            kind = await accounts.add(connection, change.kind, change.provider)
            await catalogue.add_missing(connection)
            result = Credentials(change.provider, kind)
        case MerchantChange():
            result = await merchants.change(connection, keyring, change.merchant_id, change.wanted)
        case MethodChange():
            result = await catalogue.change(connection, change.kind, change.code, change.wanted)
        case MethodAddition():
            result = await catalogue.add(connection, change.method)
        case CaseResolution():
            result = await resolutions.resolve(
                *(connection, change.case_id, change.note, change.action),
                merchant_id=change.owner_id,
                seen=change.amount,
            )
        case DisputeRecord() | TaxRemittance():
            result = await _apply_record(connection, change)
        case ProtectionChange() | SignInProviderChange():
            result = await _apply_for_team(connection, keyring, change)
    return result


async def _apply_record(
    connection: Connection, change: DisputeRecord | TaxRemittance
) -> Dispute | Remitted:
    """Applies a record of what happened outside of the platform."""
    if isinstance(change, DisputeRecord):
        return await dispute_record.apply(connection, change)
    return await remittance.remit(connection, change)


async def _apply_for_team(
    connection: Connection, keyring: Keyring, change: ProtectionChange | SignInProviderChange
) -> int | None:
    if isinstance(change, ProtectionChange):
        return await protection.apply(connection, change)
    await sign_in_providers.save(connection, keyring, change)
    return None


def is_of_team(change: Change) -> bool:
    """Whether a merchant's team decides on the change, also in development mode."""
    is_for_merchant = isinstance(change, SignInProviderChange) and bool(change.merchant_id)
    return is_for_merchant or isinstance(change, ProtectionChange)


async def mail_team(connection: Connection, change: Change) -> None:
    """Emails the other members of the team who may approve the change."""
    if isinstance(change, ProtectionChange):
        await protection.mail_team(connection, change)
    elif isinstance(change, SignInProviderChange):
        about = "a change to company sign-in", "/dashboard/production/protection"
        await second_person.mail_team(connection, change.merchant_id, current.get(), *about)


async def needs_second(connection: Connection, keyring: Keyring, change: Change) -> bool:
    if isinstance(change, ProtectionChange):
        return await protection.needs_second(connection, change, current.get().id)
    if isinstance(change, SignInProviderChange):
        return await _sign_in_needs_second(connection, change)
    return await _needs_second_administrator(connection, keyring, change)


async def _needs_second_administrator(
    connection: Connection, keyring: Keyring, change: PlatformChange
) -> bool:
    match change:
        case SettingChange():
            current_settings = await settings.load(connection)
            return _changes_limit(current_settings, change) or _setting_loosens(
                current_settings, change
            )
        case WalletFunding() | WalletAdjustment() | DisputeRecord():
            return await _amount_needs_second(connection, change)
        case ProviderAddition() | PriceChange() | TaxRemittance():
            return True
        case ProviderChange() | ProviderClearing() | MethodChange() | MethodAddition():
            known = await credentials.load(connection, keyring)
            return await _provider_needs_second(connection, known, change)
        case MerchantChange():
            return await _commission_needs_second(connection, change)
        case CaseResolution():
            return await _resolution_needs_second(connection, change)


async def _sign_in_needs_second(connection: Connection, change: SignInProviderChange) -> bool:
    """Returns whether a second person must approve a change to company sign-in.

    In the console always: users who may move money sign in with it. A merchant's owner manages the
    team alone, but must not lock out the others who may move money.
    """
    if not change.merchant_id:
        return True
    person_id = current.get().id
    return change.is_required and await second_person.has_second(
        connection, change.merchant_id, person_id
    )


def _changes_limit(current: settings.PlatformSettings, change: SettingChange) -> bool:
    value, before = settings.parse(change.key, change.value), getattr(current, change.key)
    return change.key in settings.MERCHANT_LIMITS and value != before


def _setting_loosens(current: settings.PlatformSettings, change: SettingChange) -> bool:
    value, before = settings.parse(change.key, change.value), getattr(current, change.key)
    match change.key:
        # `manilla payout release` needs no approval, because it queries the providers first.
        case "signature_required" | "payouts_held":
            return bool(before and not value)
        case "second_factor_for_money":  # if unset, the setting is on in production mode
            return before is not False and not value
        case "timestamp_tolerance_seconds":
            return bool(value > max(before, TOLERANCE_SECONDS_MAX))
        case "adjustment_limits":
            limits = setting_texts.parse_limits(before)
            raised = setting_texts.parse_limits(value)
            return any(limit > limits.get(currency, 0) for currency, limit in raised.items())
        case "settlement_account_wait_hours":
            return bool(value < before)
    return False


async def _provider_needs_second(
    connection: Connection,
    known: provider_rules.Accounts,
    change: ProviderChange | ProviderClearing | MethodChange | MethodAddition,
) -> bool:
    match change:
        case ProviderChange():
            return provider_rules.change_needs_second(known, change.provider, change.wanted)
        case ProviderClearing():
            return provider_rules.clearing_needs_second(known, change.provider)
        case MethodAddition():
            return provider_rules.is_any_valid(known)
        case MethodChange():
            before = await catalogue.get(connection, change.kind, change.code)
            after = catalogue.preview(before, change.wanted)
            return provider_rules.method_needs_second(known, before, after)


async def _amount_needs_second(
    connection: Connection,
    change: WalletFunding | WalletAdjustment | DisputeRecord,
) -> bool:
    """Returns whether the amount needs approval. Amounts in the sandbox never need approval.

    In production, the amounts of the last 24 hours are added up. A dispute's record that only
    withholds money has the amount zero.
    """
    if change.environment is Environment.SANDBOX or change.amount.minor == 0:
        return False
    return change.needs_second or await _is_above_limit(connection, change, change.amount)


async def _resolution_needs_second(connection: Connection, change: CaseResolution) -> bool:
    """Returns whether a case's resolution needs approval.

    In production, a resolution with an unknown amount always needs approval.
    """
    case = await cases.find(connection, change.case_id, merchant_id=change.owner_id)
    if change.action is CaseAction.NOTHING or case.environment == Environment.SANDBOX:
        return False
    amount = await resolutions.amount(connection, case)
    if change.needs_second or amount is None:
        return True
    return await _is_above_limit(connection, change, amount)


async def _is_above_limit(connection: Connection, change: Change, amount: Money) -> bool:
    """Returns whether the amount exceeds the limit for amounts without approval.

    The amounts that the user moved without approval in the last 24 hours are added.
    """
    limit = (await settings.load(connection)).adjustment_limit_in(amount.currency)
    if limit is None:
        return True
    moved = await queries.moved_alone(connection, current.get(), subject(change), amount.currency)
    return moved.minor + abs(amount.minor) > limit.minor


async def _commission_needs_second(connection: Connection, change: MerchantChange) -> bool:
    before = await merchants.get(connection, change.merchant_id)
    wanted = change.wanted
    if wanted.commission_percent in (None, before.commission_percent) and (
        wanted.commission_bearer in (None, before.commission_bearer)
    ):
        return False
    # A merchant that was set back to pending may already have received payments.
    return (
        before.status != merchants.MerchantStatus.PENDING
        or await queries.has_production_payment(connection, change.merchant_id)
    )


async def check(connection: Connection, change: Change, *, is_production_mode: bool) -> None:
    """Rejects an invalid change before its approval is requested."""
    match change:
        case SettingChange():
            settings.parse(change.key, change.value)
        case WalletFunding() | WalletAdjustment():
            wallets.check(change.amount, change.reason, may_take=_may_take(change))
            await wallets.get(
                connection, change.merchant_id, change.environment, change.amount.currency
            )
        case ProviderChange():
            await _check_provider(connection, change, is_production_mode=is_production_mode)
        case ProviderAddition():
            await accounts.check_new(connection, change.kind, change.provider)
        case MerchantChange():
            merchants.check_change(change.wanted)
            await merchants.get(connection, change.merchant_id)
        case MethodChange():
            method = await catalogue.get(connection, change.kind, change.code)
            catalogue.preview(method, change.wanted)
        case MethodAddition():
            await catalogue.check_new(connection, change.method)
        case CaseResolution():
            await resolutions.check(
                *(connection, change.case_id, change.note, change.action),
                merchant_id=change.owner_id,
            )
        case DisputeRecord():
            await dispute_record.check(connection, change)
        case PriceChange():
            await change.check(connection)
        case TaxRemittance():
            await remittance.check(connection, change)
        case SignInProviderChange():
            await sign_in_providers.check(connection, change, is_production_mode=is_production_mode)


async def _check_provider(
    connection: Connection, change: ProviderChange, *, is_production_mode: bool
) -> None:
    kind = await accounts.kind_of(connection, change.provider)
    credentials.check(kind, change.wanted)
    if is_production_mode:
        credentials.check_encrypted(change.wanted)


def _may_take(change: WalletFunding | WalletAdjustment) -> bool:
    return isinstance(change, WalletAdjustment)


def subject(change: Change) -> str:
    match change:
        case SettingChange():
            return f"setting:{change.key}"
        case WalletFunding() | WalletAdjustment():
            return f"wallet:{change.merchant_id}:{change.environment}:{change.amount.currency}"
        case ProviderChange() | ProviderClearing() | ProviderAddition():
            return f"provider:{change.provider}"
        case MerchantChange() | ProtectionChange():
            return f"merchant:{change.merchant_id}"
        case MethodChange() | MethodAddition():
            return f"method:{change.code}"
        case (
            CaseResolution()
            | DisputeRecord()
            | PriceChange()
            | TaxRemittance()
            | SignInProviderChange()
        ):
            return change.subject


def merchant_of(change: Change) -> int | None:
    match change:
        case WalletFunding() | WalletAdjustment() | MerchantChange() | CaseResolution():
            return change.merchant_id
        case DisputeRecord() | ProtectionChange():
            return change.merchant_id
        case PriceChange():
            return change.owner_id
        case SignInProviderChange():
            return change.merchant_id or None
    return None


async def describe(connection: Connection, change: Change) -> dict[str, Any]:
    """Returns the fields of a change for display, without secrets."""
    if isinstance(change, ProtectionChange):
        return protection.describe(change)
    if isinstance(change, SignInProviderChange):
        return change.describe()
    return await _describe(connection, change)


async def _describe(connection: Connection, change: PlatformChange) -> dict[str, Any]:
    match change:
        case SettingChange():
            return {"setting": change.key, "value": change.value}
        case WalletFunding() | WalletAdjustment():
            return {
                "environment": change.environment,
                "amount": change.amount,
                "reason": change.reason,
            }
        case ProviderChange():
            kind = await accounts.kind_of(connection, change.provider)
            shown = Credentials(change.provider, kind, change.wanted).shown()
            unset = {name for name, value in change.wanted.items() if not value}
            return {
                "provider": change.provider,
                **{name: "unset" if name in unset else shown[name] for name in change.wanted},
            }
        case ProviderClearing() | ProviderAddition() | MethodAddition():
            return _described_action(change)
        case MerchantChange() | MethodChange():
            return _described_fields(change)
        case CaseResolution() | DisputeRecord() | PriceChange() | TaxRemittance():
            return change.describe()


def _described_action(
    change: ProviderClearing | ProviderAddition | MethodAddition,
) -> dict[str, Any]:
    match change:
        case ProviderClearing():
            return {"provider": change.provider, "clear": True}
        case ProviderAddition():
            return {"provider": change.provider, "add": True, "kind": change.kind}
        case MethodAddition():
            return {"add": True, **msgspec.structs.asdict(change.method)}


def _described_fields(change: MerchantChange | MethodChange) -> dict[str, Any]:
    wanted = msgspec.structs.asdict(change.wanted)
    if wanted.get("bvn") is not None:
        wanted["bvn"] = "set"
    named = {"method": change.code} if isinstance(change, MethodChange) else {}
    return {**named, **{name: value for name, value in wanted.items() if value is not None}}
