"""API endpoints that manage customers."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount, CallbackAddress, Email, Title, money_of
from manilla.api.lists import Cursors, PeriodQuery
from manilla.api.refusals import InvalidAmount, ValidationFailed
from manilla.api.request import remember
from manilla.customers import account_store, accounts, service, store
from manilla.customers.account import (
    COUNT_MAX,
    AccountNotFound,
    CustomerAccount,
    NoAccountMethod,
    TooManyAccounts,
)
from manilla.customers.customer import (
    IDENTITY_DIGITS,
    NAME_LENGTH_MAX,
    PHONE,
    REFERENCE,
    CustomerDisabled,
    CustomerErased,
    CustomerExists,
    CustomerNotFound,
    CustomerStatus,
    CustomerTerms,
    PersonalNumbers,
)
from manilla.customers.fields import AccountInfo, CustomerInfo, describe, describe_account
from manilla.customers.service import PaymentOfOther
from manilla.customers.store import CustomerFilter
from manilla.kit import strict_json
from manilla.kit.fields import api_field
from manilla.kit.money import MoneyError
from manilla.ledger.transactions import KeyUsedBefore, TransactionNotFound
from manilla.merchants.rights import Right
from manilla.payments.states import HeldInProduction
from manilla.services import Services
from manilla.splits.planning import GivenSplit
from manilla.splits.rule import SplitInvalid

CUSTOMERS, CUSTOMER = "/api/v1/customers", "/api/v1/customers/{reference}"
NO_REFERENCE = "Use 1 to 60 letters, digits, hyphens, underscores and full stops."
NO_PHONE = "Expected 7 to 15 digits, which may follow a plus sign."
NO_IDENTITY = f"Expected {IDENTITY_DIGITS} digits."
SPLIT = (
    "How transfers into the accounts are divided: the id of a split, or a rule. If you repeat the "
    "request with another one, it replaces the earlier one. Null: by your default split."
)

CustomerName = Annotated[Title, Meta(max_length=NAME_LENGTH_MAX)]
# Everything that a merchant can change, in the order of the fields in the request.
_FIELDS = (*CustomerTerms.__struct_fields__, *PersonalNumbers.__struct_fields__)


def _problems(values: dict[str, Any]) -> dict[str, str]:
    def is_bad(name: str, pattern: Any) -> bool:
        value = values.get(name)
        return value is not None and pattern(value) is None

    def digits(text: str) -> bool | None:
        return (len(text) == IDENTITY_DIGITS and text.isascii() and text.isdigit()) or None

    found = {
        "reference": NO_REFERENCE if is_bad("reference", REFERENCE.fullmatch) else None,
        "phone": NO_PHONE if is_bad("phone", PHONE.fullmatch) else None,
        "bvn": NO_IDENTITY if is_bad("bvn", digits) else None,
        "nin": NO_IDENTITY if is_bad("nin", digits) else None,
    }
    return {name: problem for name, problem in found.items() if problem}


class CustomerRequest(Struct, frozen=True, kw_only=True):
    reference: str
    name: CustomerName
    email: Email | None = None
    phone: str | None = None
    bvn: str | None = None
    nin: str | None = None
    ipn_url: CallbackAddress | None = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        return _problems(values)


class CustomerEditRequest(Struct, frozen=True, kw_only=True):
    name: CustomerName | None = None
    email: Email | None = None
    phone: str | None = None
    bvn: str | None = None
    nin: str | None = None
    ipn_url: CallbackAddress | None = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        return _problems(values)


class CustomersQuery(PeriodQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["active", "disabled"] | None = None
    search: Annotated[str, Meta(max_length=200)] | None = None


class AccountsRequest(Struct, frozen=True, kw_only=True):
    method_codes: Annotated[list[str], Meta(min_length=1, max_length=10)] | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    ipn_url: CallbackAddress | None = None
    split: Annotated[GivenSplit | None, api_field(SPLIT)] = None


class TestTransferRequest(Struct, frozen=True, kw_only=True):
    account_id: str
    amount: Amount
    payer_name: Annotated[Title, Meta(max_length=NAME_LENGTH_MAX)] = "Test Payer"


class AttachPaymentsRequest(Struct, frozen=True, kw_only=True):
    trx_ids: Annotated[list[str], Meta(min_length=1, max_length=100)]


class AttachedPayments(Struct, frozen=True):
    attached: int


class TestTransferInfo(Struct, frozen=True):
    trx_id: str


class AccountList(Struct, frozen=True):
    data: list[AccountInfo]


class CustomerList(Struct, frozen=True):
    data: list[CustomerInfo]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    customers = [*_writing(services), *_reading(services), *_switching(services)]
    return [*customers, *_accounts(services), *_attaching(services)]


def _writing(services: Services) -> list[Endpoint]:
    db, keyring = services.db, services.keyring

    async def create_customer(call: Call) -> CustomerInfo:
        body: CustomerRequest = call.body
        terms = CustomerTerms(
            name=body.name.strip(), email=body.email, phone=body.phone, ipn_url=body.ipn_url or ""
        )
        numbers = PersonalNumbers(body.bvn, body.nin)
        own = remember(call, describe)
        new = await service.create(db, keyring, call.tenant, body.reference, terms, numbers, own)
        return describe(new)

    async def update_customer(call: Call) -> CustomerInfo:
        changed = await service.update(db, keyring, call.tenant, call.parameter, _changes(call))
        return describe(changed)

    return [
        Endpoint(
            method="POST",
            path=CUSTOMERS,
            operation_id="createCustomer",
            summary="Create a customer",
            description="Creates a customer under your reference. If you repeat the request, you "
            "get the same customer. `bvn` and `nin` are encrypted and never returned.",
            right=Right.MANAGE,
            answers=(CustomerInfo,),
            use_case=create_customer,
            body=CustomerRequest,
            refusals=(CustomerExists, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="PATCH",
            path=CUSTOMER,
            operation_id="updateCustomer",
            summary="Update a customer",
            description="Changes the fields that you send. Null removes an optional field.",
            right=Right.MANAGE,
            answers=(CustomerInfo,),
            use_case=update_customer,
            body=CustomerEditRequest,
            refusals=(CustomerNotFound, CustomerErased),
        ),
    ]


def _reading(services: Services) -> list[Endpoint]:
    cursors = Cursors(services.keyring, CUSTOMERS)

    async def list_customers(call: Call) -> CustomerList:
        page = await store.customers(
            *(services.db, call.tenant, _filter(call.query)),
            after=cursors.read(call),
            limit=call.query.limit,
        )
        return CustomerList(list(map(describe, page.rows)), cursors.write(call, page.next))

    async def get_customer(call: Call) -> CustomerInfo:
        return describe(await store.of_tenant(services.db, call.tenant, call.parameter))

    return [
        Endpoint(
            method="GET",
            path=CUSTOMERS,
            operation_id="listCustomers",
            summary="List customers",
            description="Lists your customers, newest first. `search` finds a reference, email "
            "address, phone number, account number or session id, or a part of a name.",
            right=Right.READ,
            answers=(CustomerList,),
            use_case=list_customers,
            query=CustomersQuery,
        ),
        Endpoint(
            method="GET",
            path=CUSTOMER,
            operation_id="getCustomer",
            summary="Get a customer",
            description="Returns the customer with your reference.",
            right=Right.READ,
            answers=(CustomerInfo,),
            use_case=get_customer,
            refusals=(CustomerNotFound,),
        ),
    ]


def _switching(services: Services) -> list[Endpoint]:
    async def switch(call: Call, *, is_disabled: bool) -> CustomerInfo:
        changed = await service.set_disabled(
            *(services.db, call.tenant, call.parameter),
            is_disabled=is_disabled,
            remember=remember(call, describe),
        )
        return describe(changed)

    return [
        Endpoint(
            method="POST",
            path=CUSTOMER + "/disable",
            operation_id="disableCustomer",
            summary="Disable a customer",
            description="Holds later transfers to the customer's accounts for review.",
            right=Right.MANAGE,
            answers=(CustomerInfo,),
            use_case=partial(switch, is_disabled=True),
            refusals=(CustomerNotFound, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="POST",
            path=CUSTOMER + "/enable",
            operation_id="enableCustomer",
            summary="Enable a customer",
            description="Accepts transfers to the accounts of a customer that you have disabled.",
            right=Right.MANAGE,
            answers=(CustomerInfo,),
            use_case=partial(switch, is_disabled=False),
            refusals=(CustomerNotFound, CustomerErased, KeyUsedBefore),
            is_repeatable=True,
        ),
    ]


def _accounts(services: Services) -> list[Endpoint]:
    db = services.db

    async def request_accounts(call: Call) -> AccountList:
        body: AccountsRequest = call.body
        sent = strict_json.decode(call.raw_body) if call.raw_body else {}
        platform_email = services.platform.now.customer_email(services.base_url)

        def describe_all(made: Sequence[CustomerAccount]) -> AccountList:
            return _account_list(made, call.parameter)

        made = await accounts.request(
            *(db, accounts.methods(services.methods, services.rails, call.caller)),
            *(call.caller, call.parameter),
            codes=body.method_codes or (),
            count=body.count,
            ipn_url=body.ipn_url or "",
            email_domain=platform_email.rpartition("@")[2],
            split=body.split if "split" in sent else UNSET,
            remember=remember(call, describe_all),
        )
        return describe_all(made)

    async def list_accounts(call: Call) -> AccountList:
        customer = await store.of_tenant(db, call.tenant, call.parameter)
        found = await account_store.accounts_of(db, customer.merchant_id, [customer.id])
        return _account_list(found, customer.reference)

    async def close_account(call: Call) -> AccountInfo:
        reference, account_id = call.parameters
        closed = await accounts.close(db, call.tenant, reference, account_id)
        return describe_account(closed, reference)

    async def test_transfer(call: Call) -> TestTransferInfo:
        body: TestTransferRequest = call.body
        if not call.caller.is_sandbox:
            raise ValidationFailed("Test transfers work in the sandbox only.")
        customer = await store.of_tenant(db, call.tenant, call.parameter)
        account = await account_store.of_customer(db, customer, body.account_id)
        try:
            amount = money_of(body.amount, account.currency)
        except MoneyError as error:
            raise InvalidAmount(errors={"amount": str(error)}) from None
        payer = body.payer_name.strip()
        trx_id = await services.receiving.simulate(
            call.caller, account, amount, payer, remember(call, TestTransferInfo)
        )
        return TestTransferInfo(trx_id)

    return [
        Endpoint(
            method="POST",
            path=CUSTOMER + "/accounts",
            operation_id="requestAccounts",
            summary="Request account numbers for a customer",
            description="Requests permanent account numbers: one with each of the `method_codes`, "
            "or `count` numbers with your first methods. Each is at another provider. An account "
            "is `pending` until its provider has created it: wait for the event `account.active`.",
            right=Right.MANAGE,
            answers=(AccountList,),
            use_case=request_accounts,
            body=AccountsRequest,
            refusals=(
                *(CustomerNotFound, CustomerDisabled, NoAccountMethod, TooManyAccounts),
                *(SplitInvalid, KeyUsedBefore),
            ),
            is_repeatable=True,
        ),
        Endpoint(
            method="GET",
            path=CUSTOMER + "/accounts",
            operation_id="listAccounts",
            summary="List a customer's accounts",
            description="Lists the customer's accounts, oldest first, with their numbers.",
            right=Right.READ,
            answers=(AccountList,),
            use_case=list_accounts,
            refusals=(CustomerNotFound,),
        ),
        Endpoint(
            method="DELETE",
            path=CUSTOMER + "/accounts/{accountId}",
            operation_id="closeAccount",
            summary="Close an account",
            description="Closes an account at its provider. Transfers that arrive from now on are "
            "held for review.",
            right=Right.MANAGE,
            answers=(AccountInfo,),
            use_case=close_account,
            refusals=(CustomerNotFound, AccountNotFound),
        ),
        Endpoint(
            method="POST",
            path=CUSTOMER + "/test-transfer",
            operation_id="testTransfer",
            summary="Send a test transfer",
            description="Sends a test transfer to an account, only in the sandbox.",
            right=Right.MANAGE,
            answers=(TestTransferInfo,),
            use_case=test_transfer,
            body=TestTransferRequest,
            refusals=(
                *(CustomerNotFound, AccountNotFound, InvalidAmount, HeldInProduction),
                KeyUsedBefore,
            ),
            is_repeatable=True,
        ),
    ]


def _attaching(services: Services) -> list[Endpoint]:
    async def attach_payments(call: Call) -> AttachedPayments:
        body: AttachPaymentsRequest = call.body
        attached = await service.attach(
            services.db, call.tenant, call.parameter, body.trx_ids, remember(call, AttachedPayments)
        )
        return AttachedPayments(attached)

    return [
        Endpoint(
            method="POST",
            path=CUSTOMER + "/attach",
            operation_id="attachPayments",
            summary="Attach payments to a customer",
            description="Attaches existing payments to the customer. Payments are never attached "
            "by their email address alone.",
            right=Right.MANAGE,
            answers=(AttachedPayments,),
            use_case=attach_payments,
            body=AttachPaymentsRequest,
            refusals=(CustomerNotFound, TransactionNotFound, PaymentOfOther, KeyUsedBefore),
            is_repeatable=True,
        ),
    ]


def _account_list(found: Sequence[CustomerAccount], reference: str) -> AccountList:
    return AccountList([describe_account(each, reference) for each in found])


def _changes(call: Call) -> dict[str, str | None]:
    """Returns the fields in the request body. Null removes a value, except the name."""
    sent = strict_json.decode(call.raw_body) if call.raw_body else {}
    changes = {name: getattr(call.body, name) for name in _FIELDS if name in sent}
    if "name" in changes and changes["name"] is None:
        raise ValidationFailed(errors={"name": "This field is required."})
    if changes.get("name"):
        changes["name"] = changes["name"].strip()
    if "ipn_url" in changes:
        changes["ipn_url"] = changes["ipn_url"] or ""
    return changes


def _filter(query: CustomersQuery) -> CustomerFilter:
    since, until = query.period
    status = CustomerStatus(query.status) if query.status else None
    return CustomerFilter(status=status, since=since, until=until, search=query.search)
