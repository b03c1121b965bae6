"""The five steps of going live, and the stored evidence that each step was done.

The evidence is in the audit log, in the stored webhooks, and in the refunds. A check of a provider
account, and a webhook from it, count only if the account's settings have not changed since.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.audit.audit import SavedHead
from manilla.audit.entry import AuditEntry
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.providers import credentials
from manilla.providers.checks.account import CHECKED
from manilla.providers.kind import Credentials

FIRST_PAYMENT = Money("NGN", 100_00)
DRILL = "backup.drill"
MAIL_TEST = "mail.test"
NO_ACCOUNT = "No provider account for real money is configured."
FIRST_STEP = "Do the first step."


class GoLiveStep(StrEnum):
    PROVIDER = "provider checked"
    WEBHOOK = "webhook reached"
    PAYMENT = "payment refunded"
    MAIL = "mail sent"
    BACKUP = "backup restored"


class GoLiveResult(msgspec.Struct, frozen=True):
    step: GoLiveStep
    is_done: bool
    evidence: str  # what was found, or what is missing
    next: str = ""  # the command or page that does an open step


class GoLiveInstance(msgspec.Struct, frozen=True):
    """What the steps of going live depend on, besides the database."""

    db: Database
    keyring: Keyring
    base_url: str
    mail_server: str | None  # the mail transport's name, or None if email is not configured
    is_production_mode: bool


class ProductionAccount(msgspec.Struct, frozen=True):
    """A provider account for real money."""

    name: str
    changed_at: datetime | None  # when the account's settings were last changed
    checked_at: datetime | None  # when the account passed the check with its current settings


class RefundedPayment(msgspec.Struct, frozen=True):
    trx_id: str
    provider: str
    refund_trx_id: str
    refund_status: str
    updated_at: datetime

    @property
    def result(self) -> GoLiveResult:
        text = (
            f"The payment {self.trx_id} was paid through {self.provider}. Its refund "
            f"{self.refund_trx_id} is {self.refund_status}, since {_time(self.updated_at)}."
        )
        if self.refund_status == "completed":
            return _done(GoLiveStep.PAYMENT, text)
        return _open(GoLiveStep.PAYMENT, text, "manilla refunds list --pending")


class UnknownBackup(Refusal):
    status, code = 404, "NOT_FOUND"
    message = (
        "This instance's audit log has no such entry, so the restored database is not a copy of "
        "this instance."
    )


async def check(instance: GoLiveInstance) -> list[GoLiveResult]:
    """Returns the five steps in their order."""
    accounts = await _production_accounts(instance)
    return [
        _provider_step(accounts),
        await _webhook_step(instance, accounts),
        await _payment_step(instance, accounts),
        await _mail_step(instance),
        await _backup_step(instance.db),
    ]


async def _production_accounts(instance: GoLiveInstance) -> list[ProductionAccount]:
    loaded = await credentials.load(instance.db, instance.keyring)
    changed = await audit.latest(instance.db, "provider.change")
    checked = await audit.latest(instance.db, CHECKED)
    return [
        _production_account(name, changed.get(f"provider:{name}"), checked.get(f"provider:{name}"))
        for name, account in loaded.items()
        if _is_live(account, instance)
    ]


def _is_live(account: Credentials, instance: GoLiveInstance) -> bool:
    """Whether the account moves real money. In production mode, only the provider's host counts."""
    is_for_real_money = account.is_valid and not account.is_sandbox
    return is_for_real_money and (account.has_own_host or not instance.is_production_mode)


def _production_account(
    name: str, change: AuditEntry | None, check: AuditEntry | None
) -> ProductionAccount:
    is_passed = (
        check is not None
        and (change is None or change.id < check.id)
        and check.detail == {"mode": "live", "ok": True}
    )
    changed_at = change.at if change is not None else None
    return ProductionAccount(
        name, changed_at, check.at if check is not None and is_passed else None
    )


def _done(step: GoLiveStep, evidence: str) -> GoLiveResult:
    return GoLiveResult(step, True, evidence)


def _open(step: GoLiveStep, evidence: str, next_action: str) -> GoLiveResult:
    return GoLiveResult(step, False, evidence, next_action)


def _provider_step(accounts: Sequence[ProductionAccount]) -> GoLiveResult:
    if not accounts:
        return _open(GoLiveStep.PROVIDER, NO_ACCOUNT, "manilla provider set PROVIDER KEY")
    for account in accounts:
        if account.checked_at is None:
            return _open(
                GoLiveStep.PROVIDER,
                f"{account.name} has not passed the check with its current settings.",
                f"manilla provider check {account.name} --live",
            )
    found = ", ".join(f"{each.name} at {_time(each.checked_at)}" for each in accounts)
    return _done(GoLiveStep.PROVIDER, f"Passed the check: {found}.")


async def _webhook_step(
    instance: GoLiveInstance, accounts: Sequence[ProductionAccount]
) -> GoLiveResult:
    if not accounts:
        return _open(GoLiveStep.WEBHOOK, NO_ACCOUNT, FIRST_STEP)
    found = []
    for account in accounts:
        received_at = await _webhook_at(instance.db, account)
        if received_at is None:
            return _open(
                GoLiveStep.WEBHOOK,
                f"No signed webhook has arrived from {account.name} since its settings changed.",
                f"Enter {instance.base_url}/webhooks/{account.name} on the provider's dashboard, "
                "and make a payment.",
            )
        found.append(f"{account.name} at {_time(received_at)}")
    return _done(GoLiveStep.WEBHOOK, f"A signed webhook has arrived: {', '.join(found)}.")


async def _webhook_at(db: Database, account: ProductionAccount) -> datetime | None:
    """Returns when a webhook arrived whose signature matched the account's current settings."""
    # Without ORDER BY, the search ends at the first webhook, however long the history is.
    found: datetime | None = await db.value(
        """
        SELECT last_received_at FROM webhook
         WHERE provider = $1 AND ($2::timestamptz IS NULL OR last_received_at > $2) LIMIT 1""",
        *(account.name, account.changed_at),
    )
    return found


async def _payment_step(
    instance: GoLiveInstance, accounts: Sequence[ProductionAccount]
) -> GoLiveResult:
    if not accounts:
        return _open(GoLiveStep.PAYMENT, NO_ACCOUNT, FIRST_STEP)
    names = [each.name for each in accounts]
    refunded = await _refunded_payment(instance.db, names)
    if refunded is not None:
        return refunded.result
    paid = await _paid_payment(instance.db, names)
    if paid is not None:
        return _open(
            GoLiveStep.PAYMENT,
            f"The payment {paid} is paid, but no payment has been refunded.",
            f'manilla refund {paid} --reason "First payment"',
        )
    return _open(
        GoLiveStep.PAYMENT,
        f"No production payment of at least {FIRST_PAYMENT} has been paid.",
        f"Create a payment link for {FIRST_PAYMENT} at "
        f"{instance.base_url}/dashboard/production/links/new, and pay it yourself.",
    )


async def _refunded_payment(db: Database, providers: Sequence[str]) -> RefundedPayment | None:
    """Returns a payment whose provider completed the refund, or else one with a pending refund."""
    return await db.row(
        RefundedPayment,
        """
        SELECT p.trx_id, r.provider, r.trx_id AS refund_trx_id, r.status AS refund_status,
               r.updated_at
          FROM refund r
          JOIN payment p ON p.merchant_id = r.merchant_id AND p.trx_id = r.payment_trx_id
         WHERE r.environment = 'production' AND r.provider = ANY ($1) AND NOT r.by_operator
           AND r.status IN ('completed', 'pending') AND p.status = 'success'
           AND r.currency = $2 AND r.amount_minor >= $3
         ORDER BY r.status, r.trx_id COLLATE "C" LIMIT 1""",
        *(providers, FIRST_PAYMENT.currency, FIRST_PAYMENT.minor),
    )


async def _paid_payment(db: Database, providers: Sequence[str]) -> str | None:
    found: str | None = await db.value(
        """
        SELECT p.trx_id FROM payment p
          JOIN charge c ON c.merchant_id = p.merchant_id AND c.reference = p.credited_charge
         WHERE p.environment = 'production' AND p.status = 'success'
           AND p.currency = $2 AND p.amount_minor >= $3 AND c.provider = ANY ($1)
         LIMIT 1""",
        *(providers, FIRST_PAYMENT.currency, FIRST_PAYMENT.minor),
    )
    return found


async def _mail_step(instance: GoLiveInstance) -> GoLiveResult:
    server = instance.mail_server
    if server is None:
        return _open(
            GoLiveStep.MAIL,
            "No mail server is configured.",
            "Set MANILLA_SMTP_URL and MANILLA_MAIL_FROM (docs/operating/email.md).",
        )
    sent = (await audit.latest(instance.db, MAIL_TEST)).get(f"mail_server:{server}")
    if sent is None:
        return _open(
            GoLiveStep.MAIL,
            f"No test email has been sent through {server}.",
            "manilla mail test ADDRESS",
        )
    return _done(GoLiveStep.MAIL, f"{server} accepted a test email at {_time(sent.at)}.")


async def _backup_step(db: Database) -> GoLiveResult:
    drills = (await audit.latest(db, DRILL)).values()
    if not drills:
        return _open(
            GoLiveStep.BACKUP,
            "No restore drill has been recorded.",
            "deploy/drill.sh FILE, and then the command that it prints.",
        )
    latest = max(drills, key=lambda entry: entry.id)
    return _done(
        GoLiveStep.BACKUP,
        f"A backup from {latest.detail['backup_ends_at']} was restored. "
        f"The drill was recorded at {_time(latest.at)}.",
    )


async def record_drill(db: Database, restored: SavedHead) -> datetime:
    """Records that a drill restored a backup, whose audit log ended with this entry.

    Returns the entry's time. Raises UnknownBackup if this instance's audit log does not have the
    entry, so that only the restore of this instance's own backup counts.
    """
    async with db.transaction() as connection:
        ends_at: datetime | None = await connection.value(
            "SELECT at FROM audit WHERE id = $1 AND hash = $2",
            *(restored.id, bytes.fromhex(restored.hash)),
        )
        if ends_at is None:
            raise UnknownBackup
        await audit.record(connection, DRILL, f"audit:{restored.id}", backup_ends_at=ends_at)
    return ends_at


async def record_test_mail(db: Database, server: str) -> None:
    """Records that the mail server accepted a test email."""
    async with db.transaction() as connection:
        await audit.record(connection, MAIL_TEST, f"mail_server:{server}")


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
