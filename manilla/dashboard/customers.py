"""Customer pages: the list, and one customer with its account numbers and payments."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from manilla.customers import account_store, accounts, service, store
from manilla.customers.account import AccountNotFound, AccountStatus
from manilla.customers.customer import (
    IDENTITY_DIGITS,
    PHONE,
    REFERENCE,
    CustomerErased,
    CustomerExists,
    CustomerRow,
    CustomerTerms,
    PersonalNumbers,
)
from manilla.customers.store import CustomerFilter
from manilla.kit import deadline
from manilla.kit.errors import Refusal
from manilla.kit.fields import Fields
from manilla.kit.texts import is_email, is_line
from manilla.payments import listing as payments
from manilla.payments.listing import ListedStatus, PaymentFilter
from manilla.saved_ways import personal, revoking
from manilla.saved_ways import store as saved_ways
from manilla.saved_ways.way import OPEN, WayNotFound
from manilla.web import lists, qr_code
from manilla.web.exports import attachment
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE, NEW = "~/customers", "customer_new.html"
COLUMNS = Fields(CustomerRow).select(
    "reference id name email phone bvn_given nin_given status created_at updated_at"
)
PAYMENTS_SHOWN = 20


async def show_all(request: PageRequest) -> PageResponse:
    wanted = lists.read_filter(request, CustomerFilter, "status")
    return await lists.show(
        request,
        "customers.html",
        "customers",
        COLUMNS,
        partial(store.customers, request.db, request.tenant, wanted),
        statuses=[("active", "Active"), ("disabled", "Disabled")],
    )


async def show_new(request: PageRequest) -> PageResponse:
    return request.page(NEW)


async def create(request: PageRequest) -> PageResponse:
    services, tenant = request.services, request.tenant
    try:
        reference, terms, numbers = _read(request.form)
        made = await service.create(
            *(services.db, services.keyring, tenant, reference, terms, numbers)
        )
    except Refusal as refusal:
        return request.form_with_errors(NEW, refusal, at=((CustomerExists, "reference"),))
    return request.redirect(f"{PAGE}/{made.id}", done="Customer created.")


async def show(request: PageRequest) -> PageResponse:
    customer = await _find(request)
    caller = await request.caller()
    offered = accounts.methods(request.services.methods, request.services.rails, caller)
    found = await account_store.accounts_of(request.db, customer.merchant_id, [customer.id])
    used = {each.method_code for each in found if each.status in accounts.OPEN}
    wanted = PaymentFilter(customer=customer.reference)
    page = await payments.payments(request.db, request.tenant, wanted, limit=PAYMENTS_SHOWN)
    paid = PaymentFilter(customer=customer.reference, status=ListedStatus.SUCCESS)
    numbers = (each.account_number for each in found if each.status is AccountStatus.ACTIVE)
    return request.page(
        "customer.html",
        customer=customer,
        accounts=found,
        codes={number: qr_code.data_uri(number) for number in numbers if number},
        methods=[(each.code, each.name) for each in offered if each.code not in used],
        payments=page.rows,
        paid=await deadline.or_none(payments.totals(request.db, request.tenant, paid)),
        ways=await saved_ways.ways_of(request.db, request.tenant, customer.reference),
        open_ways=OPEN,
    )


async def request_account(request: PageRequest) -> PageResponse:
    customer, caller, services = await _find(request), await request.caller(), request.services
    email = services.platform.now.customer_email(services.base_url)
    try:
        await accounts.request(
            *(services.db, accounts.methods(services.methods, services.rails, caller)),
            *(caller, customer.reference),
            codes=[request.form.required("method", at_most=60)],
            email_domain=email.rpartition("@")[2],
        )
    except Refusal as refusal:
        return request.redirect_with_errors(_path(customer), refusal)
    return request.redirect(_path(customer), done="Account requested. Reload the page shortly.")


async def close_account(request: PageRequest) -> PageResponse:
    customer, account_id = await _find(request), request.parameter("account")
    try:
        await accounts.close(request.db, request.tenant, customer.reference, account_id)
    except AccountNotFound:
        raise PageNotFound from None
    return request.redirect(_path(customer), done="Account closed.")


async def revoke_way(request: PageRequest) -> PageResponse:
    customer, way_id = await _find(request), request.parameter("way")
    try:
        await revoking.revoke(request.db, request.tenant, customer.reference, way_id)
    except WayNotFound:
        raise PageNotFound from None
    return request.redirect(_path(customer), done="Saved way to pay revoked.")


async def send_test_transfer(request: PageRequest) -> PageResponse:
    """Sends a test transfer to an account of the sandbox."""
    customer, caller = await _find(request), await request.caller()
    try:
        account = await account_store.of_customer(
            request.db, customer, request.form.required("account", at_most=40)
        )
        if not account.is_sandbox:
            raise PageNotFound
        amount = request.form.money("amount", account.currency)
        await request.services.receiving.simulate(caller, account, amount, "Test Payer")
    except Refusal as refusal:
        return request.redirect_with_errors(_path(customer), refusal, keep=("amount",))
    return request.redirect(_path(customer), done="Test transfer sent.")


async def enable(request: PageRequest) -> PageResponse:
    return await _switch(request, is_disabled=False)


async def disable(request: PageRequest) -> PageResponse:
    return await _switch(request, is_disabled=True)


async def _switch(request: PageRequest, *, is_disabled: bool) -> PageResponse:
    customer = await _find(request)
    try:
        await service.set_disabled(
            request.db, request.tenant, customer.reference, is_disabled=is_disabled
        )
    except CustomerErased as refusal:
        return request.redirect_with_errors(_path(customer), refusal)
    done = "Customer disabled." if is_disabled else "Customer enabled."
    return request.redirect(_path(customer), done=done)


async def export(request: PageRequest) -> PageResponse:
    """Sends everything that is stored about the customer, as a JSON file."""
    customer = await _find(request)
    found = await personal.export(request.db, request.tenant, customer.reference)
    # Escaped, so that a program that shows the file as a page runs no script.
    content = msgspec.json.format(msgspec.json.encode(found)).replace(b"<", rb"\u003c")
    return attachment(f"customer-{customer.reference}.json", "application/json", content)


async def erase(request: PageRequest) -> PageResponse:
    customer = await _find(request)
    await personal.erase(request.db, request.tenant, customer.reference)
    return request.redirect(_path(customer), done="Personal data erased.")


def _path(customer: CustomerRow) -> str:
    return f"{PAGE}/{customer.id}"


async def _find(request: PageRequest) -> CustomerRow:
    key = request.merchant_id, request.parameter("customer")
    found = await store.customer(request.db, *key)
    if found is None or found.environment is not request.environment:
        raise PageNotFound
    return found


def _read(form: Form) -> tuple[str, CustomerTerms, PersonalNumbers]:
    given: dict[str, Any] = {
        name: form.text(name, at_most=200).strip() or None
        for name in ("reference", "name", "email", "phone", "bvn", "nin")
    }
    checks: dict[str, tuple[Callable[[str], Any], str]] = {
        "reference": (REFERENCE.fullmatch, "Use letters, digits, hyphens and full stops."),
        "name": (lambda text: is_line(text, 100), "Use at most 100 characters."),
        "email": (is_email, "Enter an email address."),
        "phone": (PHONE.fullmatch, "Enter 7 to 15 digits."),
        "bvn": (_has_digits, f"Enter {IDENTITY_DIGITS} digits."),
        "nin": (_has_digits, f"Enter {IDENTITY_DIGITS} digits."),
    }
    errors = {
        name: problem
        for name, (is_valid, problem) in checks.items()
        if (given[name] is not None or name in ("reference", "name"))
        and not is_valid(given[name] or "")
    }
    if errors:
        raise BadForm(errors=errors)
    terms = CustomerTerms(name=given["name"], email=given["email"], phone=given["phone"])
    return given["reference"], terms, PersonalNumbers(given["bvn"], given["nin"])


def _has_digits(text: str) -> bool:
    return len(text) == IDENTITY_DIGITS and text.isascii() and text.isdigit()
