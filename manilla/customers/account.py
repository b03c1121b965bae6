"""A permanent account number of a customer at one provider."""

from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.payments.payment import SANDBOX
from manilla.providers.port import KnownAccount

ACCOUNTS_MAX = 10  # of a customer, without failed and closed ones
COUNT_MAX = 2


class AccountNotFound(Refusal):
    status, code = 404, "ACCOUNT_NOT_FOUND"
    message = "The customer has no such account."


class NoAccountMethod(Refusal):
    code = "no_account_method"
    message = "No method of yours can create an account for customers."


class TooManyAccounts(Refusal):
    code = "too_many_accounts"
    message = f"A customer has at most {ACCOUNTS_MAX} accounts. Close one of them first."


class AccountStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


# Unlisted changes do not happen.
NEXT: dict[AccountStatus, frozenset[AccountStatus]] = {
    AccountStatus.PENDING: frozenset(
        (AccountStatus.ACTIVE, AccountStatus.FAILED, AccountStatus.CLOSED)
    ),
    AccountStatus.ACTIVE: frozenset((AccountStatus.CLOSED,)),
    AccountStatus.FAILED: frozenset(),
    AccountStatus.CLOSED: frozenset(),
}


class CustomerAccount(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    id: str
    environment: Environment
    customer_id: str
    method_code: str
    provider: str
    currency: str
    email: str  # by which the provider knows the customer
    status: AccountStatus
    created_at: datetime
    updated_at: datetime
    ipn_url: str = ""
    bank_name: str | None = None
    bank_code: str | None = None
    account_number: str | None = None
    account_name: str | None = None
    provider_reference: str | None = None
    holder: str | None = None
    error_code: str | None = None
    error: str | None = None
    sent_at: datetime | None = None
    activated_at: datetime | None = None
    closing_at: datetime | None = None
    closed_at: datetime | None = None
    split: str | None = None  # how its transfers are divided, as JSON

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant_id, self.environment)

    @property
    def is_sandbox(self) -> bool:
        return self.provider == SANDBOX

    @property
    def known(self) -> KnownAccount:
        return KnownAccount(
            reference=self.id,
            customer_email=self.email,
            currency=self.currency,
            provider_reference=self.provider_reference,
            account_number=self.account_number,
            holder=self.holder,
            bank_code=self.bank_code,
        )

    def had_number_at(self, moment: datetime | None) -> bool:
        """Whether the number belonged to the customer at this time, as far as we know."""
        if self.activated_at is None:
            return False
        if moment is None:
            return self.status is AccountStatus.ACTIVE
        return self.closed_at is None or moment < self.closed_at
