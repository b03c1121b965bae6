"""The kinds of emails, the recipients of each kind, and whether users can switch it off."""

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum

import msgspec


class MailKind(StrEnum):
    RESET = "reset"
    INVITATION = "invitation"
    NEW_DEVICE = "new_device"
    KEYS_ROTATED = "keys_rotated"
    KEY_CHANGED = "key_changed"
    TEAM_CHANGED = "team_changed"
    MERCHANT_SUBMITTED = "merchant_submitted"
    MERCHANT_APPROVED = "merchant_approved"
    MERCHANT_NEEDS_INFORMATION = "merchant_needs_information"
    MERCHANT_REJECTED = "merchant_rejected"
    PAYOUT_FAILED = "payout_failed"
    LARGE_PAYOUT = "large_payout"
    BULK_DONE = "bulk_done"
    SECOND_PERSON = "second_person"
    SETTLEMENT_ACCOUNT = "settlement_account"
    SETTLEMENT_SENT = "settlement_sent"
    SETTLEMENT_FAILED = "settlement_failed"
    DISPUTE = "dispute"
    DISPUTE_OPERATOR = "dispute_operator"
    INVOICE_ISSUED = "invoice_issued"
    ENDPOINT_FAILING = "endpoint_failing"
    ENDPOINT_DISABLED = "endpoint_disabled"
    APPROVAL_REQUESTED = "approval_requested"
    BREAK_GLASS = "break_glass"
    CASE_OPENED = "case_opened"
    BALANCE_LOW = "balance_low"
    LEDGER_HEADS = "ledger_heads"
    RECEIPT = "receipt"
    TEST = "test"


class Audience(StrEnum):
    ADDRESS = "address"  # an email address that need not belong to a user
    CUSTOMER = "customer"
    PERSON = "person"  # one user
    MERCHANT = "merchant"  # the merchant's users with one of the roles
    CONSOLE = "console"  # the console's users with one of the roles


# Each set contains the roles that have the permission in the comment. A test verifies the sets.
OWNERS = frozenset(("owner",))  # MANAGE_TEAM
FINANCE = frozenset(("owner", "finance"))  # MOVE_MONEY
DEVELOPERS = frozenset(("owner", "developer"))  # CONFIGURE
ADMINISTRATORS = frozenset(("administrator",))  # PLATFORM
OPERATIONS = frozenset(("administrator", "operations"))  # PAYOUT_DESK and MERCHANTS


class MailRule(msgspec.Struct, frozen=True, kw_only=True):
    title: str  # the title on the page where users choose their emails
    audience: Audience
    facts: frozenset[str]  # the names of the values that the template shows
    roles: frozenset[str] = frozenset()
    is_security: bool = False  # whether this is a security email, which cannot be switched off
    is_on: bool = True  # the default for users who have not made a choice
    # The minimum time between two messages of one kind to the same person.
    # Emails that are queued in the meantime are sent as one message.
    gathered_for: timedelta | None = None
    # The maximum age of an email, after which sending is no longer retried.
    lasts: timedelta = timedelta(days=2)


def _facts(names: str) -> frozenset[str]:
    return frozenset(names.split())


_BURST = timedelta(minutes=15)

RULES: dict[MailKind, MailRule] = {
    MailKind.RESET: MailRule(
        title="Link to choose a new password",
        audience=Audience.PERSON,
        facts=frozenset(),
        is_security=True,
        lasts=timedelta(hours=1),
    ),
    MailKind.INVITATION: MailRule(
        title="Invitation",
        audience=Audience.ADDRESS,
        facts=_facts("place role"),
        is_security=True,
    ),
    MailKind.NEW_DEVICE: MailRule(
        title="Sign-in from a new device",
        audience=Audience.PERSON,
        facts=_facts("address browser at"),
        is_security=True,
    ),
    MailKind.KEYS_ROTATED: MailRule(
        title="API keys rotated",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("by environment merchant"),
        is_security=True,
    ),
    MailKind.KEY_CHANGED: MailRule(
        title="API key created or revoked",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("by environment merchant name rights"),
        is_security=True,
    ),
    MailKind.TEAM_CHANGED: MailRule(
        title="Team changed",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("merchant by what"),
        is_security=True,
    ),
    MailKind.MERCHANT_SUBMITTED: MailRule(
        title="A merchant asks for approval",
        audience=Audience.CONSOLE,
        roles=OPERATIONS,
        facts=_facts("merchant"),
        gathered_for=_BURST,
    ),
    MailKind.MERCHANT_APPROVED: MailRule(
        title="Your business is approved",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("merchant"),
    ),
    MailKind.MERCHANT_NEEDS_INFORMATION: MailRule(
        title="We need more information about your business",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("merchant wanted"),
    ),
    MailKind.MERCHANT_REJECTED: MailRule(
        title="Your business was not approved",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("merchant reason"),
    ),
    MailKind.PAYOUT_FAILED: MailRule(
        title="A payout failed or was returned",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant what amount beneficiary reference trx_id reason"),
        gathered_for=_BURST,
    ),
    MailKind.LARGE_PAYOUT: MailRule(
        title="A large payout was created",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant amount beneficiary reference trx_id by"),
        gathered_for=_BURST,
    ),
    MailKind.BULK_DONE: MailRule(
        title="A bulk file is done",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant file created failed total"),
    ),
    MailKind.SECOND_PERSON: MailRule(
        title="A payout or change needs a second person",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("by what total"),
        is_security=True,
    ),
    MailKind.SETTLEMENT_ACCOUNT: MailRule(
        title="Settlement account changed",
        audience=Audience.MERCHANT,
        roles=OWNERS,
        facts=_facts("merchant by account effective"),
        is_security=True,
    ),
    MailKind.SETTLEMENT_SENT: MailRule(
        title="A settlement was sent",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant amount account reference period"),
    ),
    MailKind.SETTLEMENT_FAILED: MailRule(
        title="A settlement failed",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant amount reference reason"),
    ),
    MailKind.DISPUTE: MailRule(
        title="A payment is disputed, or a dispute changes",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant what amount reference payment reason respond_by trx_id"),
    ),
    MailKind.DISPUTE_OPERATOR: MailRule(
        title="A dispute needs an administrator, or its deadline is near",
        audience=Audience.CONSOLE,
        roles=OPERATIONS,
        facts=_facts("what amount provider reference respond_by trx_id merchant"),
        gathered_for=_BURST,
    ),
    MailKind.INVOICE_ISSUED: MailRule(
        title="A fee invoice was issued",
        audience=Audience.MERCHANT,
        roles=FINANCE,
        facts=_facts("merchant title number month amount"),
    ),
    MailKind.ENDPOINT_FAILING: MailRule(
        title="Your notification endpoint is failing",
        audience=Audience.MERCHANT,
        roles=DEVELOPERS,
        facts=_facts("merchant url trx_id error"),
        gathered_for=timedelta(hours=1),
    ),
    MailKind.ENDPOINT_DISABLED: MailRule(
        title="A webhook endpoint was disabled",
        audience=Audience.MERCHANT,
        roles=DEVELOPERS,
        facts=_facts("merchant url reason"),
    ),
    MailKind.APPROVAL_REQUESTED: MailRule(
        title="A change needs a second administrator",
        audience=Audience.CONSOLE,
        roles=ADMINISTRATORS,
        facts=_facts("by change reason"),
    ),
    MailKind.BREAK_GLASS: MailRule(
        title="Sign-in with the break-glass account",
        audience=Audience.CONSOLE,
        roles=ADMINISTRATORS,
        facts=_facts("by"),
        is_security=True,
    ),
    MailKind.CASE_OPENED: MailRule(
        title="A case was opened",
        audience=Audience.CONSOLE,
        roles=OPERATIONS,
        facts=_facts("kind reference detail"),
        gathered_for=_BURST,
    ),
    MailKind.BALANCE_LOW: MailRule(
        title="A provider's balance is low",
        audience=Audience.CONSOLE,
        roles=OPERATIONS,
        facts=_facts("provider balance wanted"),
        gathered_for=timedelta(hours=6),
    ),
    MailKind.LEDGER_HEADS: MailRule(
        title="Daily anchors of ledger and audit log",
        audience=Audience.CONSOLE,
        roles=ADMINISTRATORS,
        facts=_facts("day chain_head audit_head"),
    ),
    MailKind.RECEIPT: MailRule(
        title="Receipts",
        audience=Audience.CUSTOMER,
        facts=_facts(
            "merchant amount description reference trx_id at support logo way way_label language"
        ),
    ),
    MailKind.TEST: MailRule(
        title="Test",
        audience=Audience.ADDRESS,
        facts=frozenset(),
        is_security=True,
        lasts=timedelta(hours=1),
    ),
}


def chosen_by(audience: Audience, roles: Iterable[str]) -> list[MailKind]:
    """Returns the kinds of email that a user with these roles can receive and switch off."""
    held = frozenset(roles)
    return [
        kind
        for kind, rule in RULES.items()
        if rule.audience is audience and rule.roles & held and not rule.is_security
    ]
