"""The commands that change a simulated provider, for the control API and the control page."""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from manilla.kit import strict_json
from manilla.kit.money import Money, MoneyError
from manilla_simulator import accounts, cards, charges, disputes, mandates, refunds, transfers
from manilla_simulator.faults import (
    FAULTS_MAX,
    DisputeLie,
    Lines,
    NextFault,
    RefundOutcome,
    Seconds,
    WebhookMode,
    WebhookPlan,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import (
    CURRENCY,
    Charge,
    Dispute,
    DisputeStatus,
    Mandate,
    PermanentAccount,
    Refund,
    RefundStatus,
    Transfer,
    TransferPayer,
    TransferStatus,
)
from manilla_simulator.webhooks import Webhook
from manilla_simulator.wire import Notice

DueSeconds = Annotated[float, msgspec.Meta(ge=0, le=366 * 24 * 3600)]


class Invalid(Exception):
    """The command is invalid. The message gives the reason."""


class NotFound(Exception):
    pass


class ChangeFaults(msgspec.Struct, forbid_unknown_fields=True):
    """Changes the configured faults. Omitted fields keep their values."""

    latency_seconds: Seconds | UnsetType = UNSET
    settle_seconds: Seconds | UnsetType = UNSET
    outage: bool | UnsetType = UNSET
    next: list[NextFault] | UnsetType = UNSET
    webhooks: WebhookPlan | UnsetType = UNSET
    refunds: RefundOutcome | UnsetType = UNSET
    statement_overlap: Lines | UnsetType = UNSET
    disputes: DisputeLie | UnsetType = UNSET


class Settle(msgspec.Struct, forbid_unknown_fields=True):
    status: TransferStatus
    # The provider's own status, needed if several of its statuses correspond to one `status`.
    provider_status: str = ""
    reason: str = ""
    after_seconds: Seconds = 0
    insist: bool = False  # If True, status changes are allowed that no provider makes by itself.


class SettleRefund(msgspec.Struct, forbid_unknown_fields=True):
    status: RefundStatus
    provider_status: str = ""
    reason: str = ""


class Outcome(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"


class Pay(msgspec.Struct, forbid_unknown_fields=True):
    outcome: Outcome = Outcome.SUCCESS
    amount: Decimal | None = None
    reason: str = charges.DECLINED
    late: bool = False  # If True, the charge expires before the customer pays it.
    insist: bool = False


class SetChargeStatus(msgspec.Struct, forbid_unknown_fields=True):
    """Sets the charge's status in the provider's terms. The general status does not change."""

    provider_status: str


class OpenDispute(msgspec.Struct, forbid_unknown_fields=True):
    amount: Decimal | None = None
    category: str = "chargeback"
    reason: str = "Customer did not receive the goods"
    stage: str = "new"
    due_seconds: DueSeconds = disputes.ANSWER_SECONDS
    insist: bool = False


class ResolveDispute(msgspec.Struct, forbid_unknown_fields=True):
    status: DisputeStatus
    # The provider's own status, needed if several of its statuses correspond to one `status`.
    provider_status: str = ""
    amount: Decimal | None = None  # the accepted part
    insist: bool = False


class ReopenDispute(msgspec.Struct, forbid_unknown_fields=True):
    stage: str = disputes.SECOND_STAGE
    due_seconds: DueSeconds = disputes.ANSWER_SECONDS
    insist: bool = False


class SetBalance(msgspec.Struct, forbid_unknown_fields=True):
    available: Decimal


class SendWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """Signs this exact body and sends it as a webhook. Configured faults apply to the webhook."""

    body: msgspec.Raw
    url: str | None = None


def change_faults(provider: Provider, change: ChangeFaults) -> None:
    if change.next is not UNSET and len(change.next) > FAULTS_MAX:
        raise Invalid(f"At most {FAULTS_MAX} faults can be set at a time.")
    for name in change.__struct_fields__:
        value = getattr(change, name)
        if value is not UNSET:
            setattr(provider.faults, name, value)
    if not provider.faults.outage and provider.faults.webhooks.mode is not WebhookMode.HOLD:
        provider.outbox.release()


def change_account(provider: Provider, change: Mapping[str, Any]) -> None:
    """Changes credentials, the webhook URL and other settings. Omitted fields keep their values."""
    current = msgspec.to_builtins(provider.account)
    try:
        changed = msgspec.convert({**current, **change}, type(provider.account), strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"{error}.") from None
    provider.change_account(changed)


def approve_transfer(provider: Provider, reference: str) -> Transfer:
    transfer = _find_transfer(provider, reference)
    transfers.approve(provider, transfer)
    return transfer


def settle_transfer(provider: Provider, reference: str, command: Settle) -> Transfer:
    transfer = _find_transfer(provider, reference)
    _check_word(provider.wire.transfer_words, command.provider_status, command.status)
    if command.after_seconds:
        transfers.check(provider, transfer, command.status)
        transfers.settle_later(
            provider, transfer, command.status, command.reason, command.after_seconds
        )
    else:
        transfers.settle(
            provider,
            transfer,
            command.status,
            command.reason,
            provider_status=command.provider_status,
            insist=command.insist,
        )
    return transfer


def _find_transfer(provider: Provider, reference: str) -> Transfer:
    transfer = provider.transfers.get(reference)
    if transfer is None:
        raise NotFound(f"{provider.wire.title} has no transfer {reference}.")
    return transfer


def _check_word(words: Mapping[str, StrEnum], word: str, status: StrEnum) -> None:
    if word and words.get(word) is not status:
        known = ", ".join(each for each, meant in words.items() if meant is status)
        raise Invalid(
            f"{word} is not a provider status for {status}. Possible values: {known or 'none'}."
        )


def settle_refund(provider: Provider, reference: str, command: SettleRefund) -> Refund:
    refund = provider.refunds.get(reference)
    if refund is None:
        raise NotFound(f"{provider.wire.title} has no refund {reference}.")
    word = command.provider_status
    _check_word(provider.wire.refund_words, word, command.status)
    refunds.settle(provider, refund, command.status, command.reason, provider_status=word)
    return refund


def pay_charge(provider: Provider, reference: str, command: Pay) -> Charge:
    charge = _find_charge(provider, reference)
    amount = None if command.amount is None else money(command.amount)
    if amount is not None and amount.minor <= 0:
        raise Invalid("The amount must be more than 0.")
    if command.late:
        charges.expire(charge)
    if command.outcome is Outcome.SUCCESS:
        charges.pay(provider, charge, amount, insist=command.insist)
    else:
        charges.decline(provider, charge, command.reason, insist=command.insist)
    return charge


def set_charge_status(provider: Provider, reference: str, command: SetChargeStatus) -> Charge:
    charge = _find_charge(provider, reference)
    _check_word(provider.wire.charge_words, command.provider_status, charge.status)
    charge.provider_status = command.provider_status
    return charge


def expire_charge(provider: Provider, reference: str) -> Charge:
    charge = _find_charge(provider, reference)
    charges.expire(charge)
    return charge


class SendTransfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A customer sends a transfer to a permanent account."""

    amount: Decimal
    payer_name: str = "Chidi Eze"
    payer_bank: str = "Access Bank"
    payer_account: str = "0123456789"


def send_transfer(provider: Provider, number: str, command: SendTransfer) -> Charge:
    account = accounts.with_number(provider, number)
    payer = TransferPayer(
        command.payer_name, command.payer_bank, command.payer_account, accounts.session_id()
    )
    return accounts.transfer(provider, account, money(command.amount), payer)


class GiveNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: str


def give_number(provider: Provider, reference: str, command: GiveNumber) -> PermanentAccount:
    """Gives an account the number of another one, as providers do with unused numbers."""
    account = provider.accounts.get(reference)
    if account is None:
        raise NotFound(f"There is no account {reference}.")
    account.account_number = command.number
    return account


def change_card(provider: Provider, reference: str, command: cards.CardChange) -> Charge:
    charge = _find_charge(provider, reference)
    if charge.card is None:
        raise NotFound(f"Charge {reference} has left no card.")
    cards.change(charge.card, command)
    return charge


def set_mandate_status(
    provider: Provider, reference: str, command: mandates.SetMandateStatus
) -> Mandate:
    mandate = provider.mandates.get(reference)
    if mandate is None:
        raise NotFound(f"{provider.wire.title} has no mandate {reference}.")
    mandates.change(provider, mandate, command.status)
    return mandate


def open_dispute(provider: Provider, reference: str, command: OpenDispute) -> Dispute:
    charge = _find_charge(provider, reference)
    claim = disputes.Claim(
        amount=None if command.amount is None else money(command.amount),
        category=command.category,
        reason=command.reason,
        stage=command.stage,
        due_seconds=command.due_seconds,
    )
    return disputes.open_dispute(provider, charge, claim, insist=command.insist)


def remind_of_dispute(provider: Provider, reference: str) -> Dispute:
    dispute = _find_dispute(provider, reference)
    disputes.remind(provider, dispute)
    return dispute


def resolve_dispute(provider: Provider, reference: str, command: ResolveDispute) -> Dispute:
    dispute = _find_dispute(provider, reference)
    _check_word(provider.wire.dispute_words, command.provider_status, command.status)
    disputes.change(
        provider,
        dispute,
        command.status,
        accepted=None if command.amount is None else money(command.amount),
        provider_status=command.provider_status,
        insist=command.insist,
    )
    return dispute


def reopen_dispute(provider: Provider, reference: str, command: ReopenDispute) -> Dispute:
    dispute = _find_dispute(provider, reference)
    disputes.reopen(provider, dispute, command.stage, command.due_seconds, insist=command.insist)
    return dispute


def _find_dispute(provider: Provider, reference: str) -> Dispute:
    dispute = provider.disputes.get(reference)
    if dispute is None:
        raise NotFound(f"{provider.wire.title} has no dispute {reference}.")
    return dispute


def set_balance(provider: Provider, command: SetBalance) -> None:
    available = money(command.available)
    if available.minor < 0:
        raise Invalid("The balance cannot be less than 0.")
    provider.set_balance(available)


def send_webhook(provider: Provider, command: SendWebhook) -> Webhook:
    try:
        body = strict_json.decode(bytes(command.body))
    except strict_json.JsonError as error:
        raise Invalid(str(error)) from None
    event = str(body.get("event", "custom")) if isinstance(body, dict) else "custom"
    return provider.outbox.put(Notice(event, "", command.body, command.url))


def money(amount: Decimal) -> Money:
    try:
        return Money.of(amount, CURRENCY)
    except MoneyError as error:
        raise Invalid(str(error)) from None


def _find_charge(provider: Provider, reference: str) -> Charge:
    charge = provider.charges.get(reference)
    if charge is None:
        raise NotFound(f"{provider.wire.title} has no charge {reference}.")
    return charges.refreshed(charge)
