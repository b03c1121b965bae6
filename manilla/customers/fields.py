"""Customers and their accounts as the API and the events describe them."""

import time
from typing import Annotated

import msgspec

from manilla.customers.account import AccountStatus, CustomerAccount
from manilla.customers.customer import CustomerRow, CustomerStatus
from manilla.kit.clock import iso
from manilla.kit.fields import api_field
from manilla.splits import planning


class CustomerInfo(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    id: str
    name: str
    email: str | None
    phone: str | None
    bvn_given: bool
    nin_given: bool
    ipn_url: str | None
    status: Annotated[str, api_field("The customer's status.", enum=list(CustomerStatus))]
    created_at: str
    updated_at: str
    environment: str


def describe(customer: CustomerRow) -> CustomerInfo:
    return CustomerInfo(
        reference=customer.reference,
        id=customer.id,
        name=customer.name,
        email=customer.email,
        phone=customer.phone,
        bvn_given=customer.bvn_given,
        nin_given=customer.nin_given,
        ipn_url=customer.ipn_url or None,
        status=customer.status,
        created_at=iso(customer.created_at),
        updated_at=iso(customer.updated_at),
        environment=customer.environment,
    )


class AccountInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    status: Annotated[
        str,
        api_field(
            "`pending` until the provider has created the account, `active`, `failed` or `closed`.",
            enum=list(AccountStatus),
        ),
    ]
    bank_name: str | None
    bank_code: str | None
    account_number: str | None
    account_name: str | None
    currency: str
    method_code: str
    customer_reference: str
    created_at: str
    error_code: str | None = None
    error: str | None = None
    split_id: Annotated[
        str | None,
        api_field("The split that divides its transfers. Omitted if you sent no id of a split."),
    ] = None


class AccountNoticeData(AccountInfo, frozen=True, kw_only=True, omit_defaults=True):
    trx_id: str  # the account's id: receivers of notifications read this field of every event
    environment: str


class AccountNotice(msgspec.Struct, frozen=True):
    event: str
    data: AccountNoticeData
    message: str
    status: str
    timestamp: int


def describe_account(account: CustomerAccount, reference: str) -> AccountInfo:
    return AccountInfo(
        id=account.id,
        status=account.status,
        bank_name=account.bank_name,
        bank_code=account.bank_code,
        account_number=account.account_number,
        account_name=account.account_name,
        currency=account.currency,
        method_code=account.method_code,
        customer_reference=reference,
        created_at=iso(account.created_at),
        error_code=account.error_code,
        error=account.error,
        split_id=None if account.split is None else planning.given_id(account.split),
    )


def describe_account_notice(account: CustomerAccount, customer: CustomerRow) -> AccountNotice:
    info = msgspec.structs.asdict(describe_account(account, customer.reference))
    data = AccountNoticeData(**info, trx_id=account.id, environment=account.environment)
    message = f"Account {account.status.title()}"
    return AccountNotice("account", data, message, account.status, int(time.time()))
