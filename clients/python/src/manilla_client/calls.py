"""The API's calls as data: each call has a request and a function that parses the response."""

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Literal, TypedDict, TypeVar, get_args
from urllib.parse import quote, urlencode

from manilla_client import exact_json
from manilla_client.bodies import (
    AcceptedResend,
    AccountsOrder,
    Amount,
    AttachedPayments,
    Balance,
    BankList,
    CanceledPayment,
    ChargedWay,
    CompletedPayment,
    CreatedPaymentLink,
    CustomerAccount,
    CustomerAccounts,
    CustomerChange,
    CustomerInfo,
    CustomerOrder,
    DeletedEndpoint,
    DeletedFile,
    DeliveredPayout,
    Dispute,
    DisputeEvidence,
    EndpointChange,
    EndpointOrder,
    EndpointSecret,
    EndpointTest,
    EventPage,
    EvidenceFile,
    Invoice,
    MandateOrder,
    MerchantAccount,
    PaymentLink,
    PaymentLinkChange,
    PaymentLinkOrder,
    PaymentLinkPage,
    PaymentOrder,
    PaymentSession,
    PaymentShares,
    Payout,
    PayoutMethods,
    PayoutOrder,
    PricesInForce,
    Refund,
    RefundOrder,
    SavedWay,
    SavedWays,
    SentTransfer,
    SiteInfo,
    Split,
    SplitChange,
    SplitOrder,
    SubAccount,
    SubAccounts,
    TransferOrder,
    UndeliveredPayout,
    UnfinishedPayment,
    VerifiedRefund,
    WayCharge,
    WebhookEndpoint,
    WebhookEndpointPage,
)
from manilla_client.errors import BadAnswer
from manilla_client.reading import read

Kind = TypeVar("Kind")
Scenario = Literal["success", "failed", "pending", "disputed"]
KEY_LENGTH_MAX = 255
AMOUNTS = frozenset({"payment_amount", "payout_amount", "amount", "amount_max"})
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
LINKS = "/api/v1/payment-links"
ENDPOINTS = "/api/v1/webhook-endpoints"
DISPUTES = "/api/v1/disputes"
INVOICES = "/api/v1/invoices"
CUSTOMERS = "/api/v1/customers"
SPLITS, SUB_ACCOUNTS = "/api/v1/splits", "/api/v1/sub-accounts"
JSON_TYPE = "application/json"


class PaymentLinkQuery(TypedDict, total=False):
    """Filters for payment links. `since` and `until` are sent as `from` and `to`."""

    limit: int
    cursor: str | None
    since: datetime | None
    until: datetime | None
    status: str | None


class EventQuery(TypedDict, total=False):
    """Filters for events. `since` is a time, or the id of the last event that you received."""

    since: datetime | str | None
    type: str | None
    wait: int
    limit: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Call(Generic[Kind]):
    method: str
    target: str
    read: Callable[[Any], Kind]
    body: bytes = b""
    # Every attempt has the same idempotency key, so the request takes effect only once.
    idempotency_key: str | None = None
    has_own_key: bool = False  # whether the caller chose the idempotency key
    scenario: Scenario | None = None
    content_type: str = JSON_TYPE  # of the body
    file_type: str | None = None  # the media type of a response that is a file

    def headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self.body:
            headers["Content-Type"] = self.content_type
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        if self.scenario is not None:
            headers["X-Sandbox-Scenario"] = self.scenario
        return headers


def initiate_payment(
    order: PaymentOrder, idempotency_key: str | None, scenario: Scenario | None
) -> Call[PaymentSession]:
    body = _body(order, PaymentOrder)
    return _post("/api/v1/initiate-payment", read_session, body, idempotency_key, scenario)


def initiate_payout(
    order: PayoutOrder, idempotency_key: str | None, scenario: Scenario | None
) -> Call[Payout]:
    body = _body(order, PayoutOrder)
    return _post("/api/v1/initiate-payout", _reading(Payout), body, idempotency_key, scenario)


def read_session(document: Any) -> PaymentSession:
    session = read(PaymentSession, document)
    try:
        has_id = bool(session.trx_id)
    except ValueError:  # payment_url is not a URL
        has_id = False
    if not has_id:
        raise BadAnswer("PaymentSession.payment_url does not contain the payment's id.")
    return session


def verify_payment(trx_id: str) -> Call[CompletedPayment | UnfinishedPayment]:
    return Call("GET", _path("/api/v1/verify-payment", trx_id), read_payment)


def cancel_payment(trx_id: str) -> Call[CanceledPayment]:
    return Call("POST", _path("/api/v1/payments", trx_id, "/cancel"), _reading(CanceledPayment))


def read_payment(document: Any) -> CompletedPayment | UnfinishedPayment:
    if _is_success(document):
        return read(CompletedPayment, document)
    return read(UnfinishedPayment, document)


def verify_payout(trx_id: str) -> Call[DeliveredPayout | UndeliveredPayout]:
    return Call("GET", _path("/api/v1/verify-payout", trx_id), read_payout)


def read_payout(document: Any) -> DeliveredPayout | UndeliveredPayout:
    if _is_success(document):
        return read(DeliveredPayout, document)
    return read(UndeliveredPayout, document)


def initiate_refund(
    order: RefundOrder, idempotency_key: str | None, scenario: Scenario | None
) -> Call[Refund]:
    body = _body(order, RefundOrder)
    return _post("/api/v1/initiate-refund", _reading(Refund), body, idempotency_key, scenario)


def verify_refund(trx_id: str) -> Call[VerifiedRefund]:
    target = _path("/api/v1/verify-refund", trx_id)
    return Call("GET", target, lambda document: read(VerifiedRefund, document))


def get_split(split_id: str) -> Call[Split]:
    return Call("GET", _path(SPLITS, split_id), _reading(Split))


def create_split(order: SplitOrder, idempotency_key: str | None) -> Call[Split]:
    return _post(SPLITS, _reading(Split), _body(order, SplitOrder), idempotency_key)


def edit_split(split_id: str, change: SplitChange) -> Call[Split]:
    return Call("PATCH", _path(SPLITS, split_id), _reading(Split), _body(change, SplitChange))


def disable_split(split_id: str, idempotency_key: str | None) -> Call[Split]:
    return _post(_path(SPLITS, split_id, "/disable"), _reading(Split), b"", idempotency_key)


def create_sub_account(name: str, idempotency_key: str | None) -> Call[SubAccount]:
    return _post(SUB_ACCOUNTS, _reading(SubAccount), _encoded({"name": name}), idempotency_key)


def sub_accounts() -> Call[SubAccounts]:
    return Call("GET", SUB_ACCOUNTS, _reading(SubAccounts))


def release_shares(
    trx_id: str, receiver: str | int | None, idempotency_key: str | None
) -> Call[PaymentShares]:
    body = _encoded({} if receiver is None else {"receiver": receiver})
    target = _path("/api/v1/payments", trx_id, "/release")
    return _post(target, _reading(PaymentShares), body, idempotency_key)


def get_dispute(dispute_id: str) -> Call[Dispute]:
    return Call("GET", _path(DISPUTES, dispute_id), _reading(Dispute))


def get_invoice(number: str) -> Call[Invoice]:
    return Call("GET", _path(INVOICES, number), _reading(Invoice))


def get_invoice_pdf(number: str) -> Call[bytes]:
    return Call("GET", _path(INVOICES, number, ".pdf"), bytes, file_type="application/pdf")


def get_invoice_xml(number: str) -> Call[bytes]:
    return Call("GET", _path(INVOICES, number, ".xml"), bytes, file_type="application/xml")


def accept_dispute(
    dispute_id: str, amount: Amount | None, idempotency_key: str | None
) -> Call[Dispute]:
    target = _path(DISPUTES, dispute_id, "/accept")
    body = _encoded({} if amount is None else {"amount": amount})
    return _post(target, _reading(Dispute), body, idempotency_key)


def set_dispute_evidence(dispute_id: str, evidence: DisputeEvidence) -> Call[Dispute]:
    check_names(evidence, DisputeEvidence)
    target = _path(DISPUTES, dispute_id, "/evidence")
    # Parts that are None are sent as null, which tells the API to remove them.
    return Call("PUT", target, _reading(Dispute), _encoded(evidence))


def add_dispute_file(
    dispute_id: str, name: str, content: bytes, idempotency_key: str | None
) -> Call[EvidenceFile]:
    target = _path(DISPUTES, dispute_id, "/files")
    # The boundary depends only on the file, so that a repeated call has the same body.
    boundary = hashlib.sha256(content).hexdigest()
    quoted = re.sub('[\r\n"\\\\]', "_", name)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    call = _post(target, _reading(EvidenceFile), body, idempotency_key)
    return replace(call, content_type=f"multipart/form-data; boundary={boundary}")


def remove_dispute_file(dispute_id: str, file_id: int) -> Call[DeletedFile]:
    target = _path(DISPUTES, dispute_id, f"/files/{int(file_id)}")
    return Call("DELETE", target, _reading(DeletedFile))


def submit_dispute(dispute_id: str, idempotency_key: str | None) -> Call[Dispute]:
    target = _path(DISPUTES, dispute_id, "/submit")
    return _post(target, _reading(Dispute), b"", idempotency_key)


def create_customer(order: CustomerOrder, idempotency_key: str | None) -> Call[CustomerInfo]:
    body = _body(order, CustomerOrder)
    return _post(CUSTOMERS, _reading(CustomerInfo), body, idempotency_key)


def get_customer(reference: str) -> Call[CustomerInfo]:
    return Call("GET", _path(CUSTOMERS, reference), _reading(CustomerInfo))


def update_customer(reference: str, change: CustomerChange) -> Call[CustomerInfo]:
    check_names(change, CustomerChange)
    target = _path(CUSTOMERS, reference)
    # Fields that are None are sent as null, which tells the API to remove them.
    return Call("PATCH", target, _reading(CustomerInfo), _encoded(change))


def switch_customer(
    reference: str, action: Literal["disable", "enable"], idempotency_key: str | None
) -> Call[CustomerInfo]:
    target = _path(CUSTOMERS, reference, f"/{action}")
    return _post(target, _reading(CustomerInfo), b"", idempotency_key)


def request_accounts(
    customer: str, order: AccountsOrder, idempotency_key: str | None
) -> Call[CustomerAccounts]:
    target = _path(CUSTOMERS, customer, "/accounts")
    return _post(target, _reading(CustomerAccounts), _body(order, AccountsOrder), idempotency_key)


def list_accounts(customer: str) -> Call[CustomerAccounts]:
    return Call("GET", _path(CUSTOMERS, customer, "/accounts"), _reading(CustomerAccounts))


def close_account(customer: str, account_id: str) -> Call[CustomerAccount]:
    target = _path(_path(CUSTOMERS, customer, "/accounts"), account_id)
    return Call("DELETE", target, _reading(CustomerAccount))


def test_transfer(
    customer: str, transfer: TransferOrder, idempotency_key: str | None
) -> Call[SentTransfer]:
    target = _path(CUSTOMERS, customer, "/test-transfer")
    return _post(target, _reading(SentTransfer), _body(transfer, TransferOrder), idempotency_key)


def attach_payments(
    customer: str, trx_ids: Sequence[str], idempotency_key: str | None
) -> Call[AttachedPayments]:
    target = _path(CUSTOMERS, customer, "/attach")
    body = _encoded({"trx_ids": list(trx_ids)})
    return _post(target, _reading(AttachedPayments), body, idempotency_key)


def list_ways(customer: str) -> Call[SavedWays]:
    return Call("GET", _path(CUSTOMERS, customer, "/ways"), _reading(SavedWays))


def revoke_way(customer: str, way_id: str) -> Call[SavedWay]:
    target = _path(_path(CUSTOMERS, customer, "/ways"), way_id)
    return Call("DELETE", target, _reading(SavedWay))


def create_mandate(
    customer: str, order: MandateOrder, idempotency_key: str | None
) -> Call[SavedWay]:
    target = _path(CUSTOMERS, customer, "/ways")
    return _post(target, _reading(SavedWay), _body(order, MandateOrder), idempotency_key)


def charge_way(
    customer: str, charge: WayCharge, idempotency_key: str | None, scenario: Scenario | None
) -> Call[ChargedWay]:
    target = _path(CUSTOMERS, customer, "/charges")
    body = _body(charge, WayCharge)
    return _post(target, _reading(ChargedWay), body, idempotency_key, scenario)


def balance() -> Call[Balance]:
    return Call("GET", "/api/v1/balance", lambda document: read(Balance, document))


def prices(currency: str) -> Call[PricesInForce]:
    target = "/api/v1/prices?" + urlencode({"currency": currency})
    return Call("GET", target, lambda document: read(PricesInForce, document))


def create_payment_link(
    order: PaymentLinkOrder, idempotency_key: str | None
) -> Call[CreatedPaymentLink]:
    ends = order.get("expires_at")
    sent = {**order, "expires_at": None if ends is None else ends.isoformat()}
    body = _body(sent, PaymentLinkOrder)
    return _post(LINKS, _reading(CreatedPaymentLink), body, idempotency_key)


def list_payment_links(query: PaymentLinkQuery) -> Call[PaymentLinkPage]:
    check_names(query, PaymentLinkQuery)
    target = listed(LINKS, query, {"since": "from", "until": "to"})
    return Call("GET", target, lambda document: read(PaymentLinkPage, document))


def get_payment_link(link_id: str) -> Call[PaymentLink]:
    target = _path(LINKS, link_id)
    return Call("GET", target, lambda document: read(PaymentLink, document))


def disable_payment_link(link_id: str, idempotency_key: str | None) -> Call[CreatedPaymentLink]:
    target = _path(LINKS, link_id, "/disable")
    return _post(target, _reading(CreatedPaymentLink), b"", idempotency_key)


def enable_payment_link(link_id: str, idempotency_key: str | None) -> Call[CreatedPaymentLink]:
    target = _path(LINKS, link_id, "/enable")
    return _post(target, _reading(CreatedPaymentLink), b"", idempotency_key)


def edit_payment_link(link_id: str, change: PaymentLinkChange) -> Call[PaymentLink]:
    check_names(change, PaymentLinkChange)
    sent: dict[str, object] = {**change}
    if (ends := change.get("expires_at")) is not None:
        sent["expires_at"] = ends.isoformat()
    target = _path(LINKS, link_id)
    # Fields that are None are sent as null, which tells the API to clear them.
    return Call("PATCH", target, lambda document: read(PaymentLink, document), _encoded(sent))


def list_events(query: EventQuery) -> Call[EventPage]:
    check_names(query, EventQuery)
    target = listed("/api/v1/events", query)
    return Call("GET", target, lambda document: read(EventPage, document))


def create_webhook_endpoint(
    order: EndpointOrder, idempotency_key: str | None
) -> Call[EndpointSecret]:
    body = _body({**order, "events": list(order["events"])}, EndpointOrder)
    return _post(ENDPOINTS, _reading(EndpointSecret), body, idempotency_key)


def list_webhook_endpoints(limit: int | None, cursor: str | None) -> Call[WebhookEndpointPage]:
    target = listed(ENDPOINTS, {"limit": limit, "cursor": cursor})
    return Call("GET", target, lambda document: read(WebhookEndpointPage, document))


def get_webhook_endpoint(endpoint_id: str) -> Call[WebhookEndpoint]:
    return Call(
        "GET", _path(ENDPOINTS, endpoint_id), lambda document: read(WebhookEndpoint, document)
    )


def change_webhook_endpoint(endpoint_id: str, change: EndpointChange) -> Call[WebhookEndpoint]:
    events = change.get("events")
    given = {**change, "events": None if events is None else list(events)}
    body = _body(given, EndpointChange)
    target = _path(ENDPOINTS, endpoint_id)
    return Call("PATCH", target, lambda document: read(WebhookEndpoint, document), body)


def delete_webhook_endpoint(endpoint_id: str) -> Call[DeletedEndpoint]:
    return Call(
        "DELETE", _path(ENDPOINTS, endpoint_id), lambda document: read(DeletedEndpoint, document)
    )


def test_webhook_endpoint(endpoint_id: str, idempotency_key: str | None) -> Call[EndpointTest]:
    target = _path(ENDPOINTS, endpoint_id, "/test")
    return _post(target, _reading(EndpointTest), b"", idempotency_key)


def rotate_webhook_secret(
    endpoint_id: str, overlap_minutes: int, idempotency_key: str | None
) -> Call[EndpointSecret]:
    body = exact_json.dumps({"overlap_minutes": overlap_minutes}).encode()
    target = _path(ENDPOINTS, endpoint_id, "/rotate-secret")
    return _post(target, _reading(EndpointSecret), body, idempotency_key)


def resend_webhook_events(
    endpoint_id: str, since: datetime, include_delivered: bool, idempotency_key: str | None
) -> Call[AcceptedResend]:
    given = {"since": since.isoformat(), "include_delivered": include_delivered}
    target = _path(ENDPOINTS, endpoint_id, "/resend")
    body = exact_json.dumps(given).encode()
    return _post(target, _reading(AcceptedResend), body, idempotency_key)


def _post(
    target: str,
    read_answer: Callable[[Any], Kind],
    body: bytes,
    idempotency_key: str | None,
    scenario: Scenario | None = None,
) -> Call[Kind]:
    if scenario not in (None, *get_args(Scenario)):
        raise ValueError("A scenario is success, failed, pending or disputed.")
    key = str(uuid.uuid4()) if idempotency_key is None else _checked_key(idempotency_key)
    is_own = idempotency_key is not None
    return Call("POST", target, read_answer, body, key, is_own, scenario)


def _reading(kind: type[Kind]) -> Callable[[Any], Kind]:
    return lambda document: read(kind, document)


def _path(path: str, part: str, action: str = "") -> str:
    """Appends an id to the path. An empty id or dots would lead to another path."""
    if part in ("", ".", ".."):
        raise ValueError(f"{part!r} is not an id.")
    return f"{path}/{quote(part, safe='')}{action}"


def listed(path: str, query: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """Adds the filters to the path as a query string. `names` maps a filter to its API name."""
    sent = {
        (names or {}).get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in query.items()
        if value is not None
    }
    return f"{path}?{urlencode(sent)}" if sent else path


def account() -> Call[MerchantAccount]:
    return Call("GET", "/api/v1/account", _reading(MerchantAccount))


def site_info() -> Call[SiteInfo]:
    return Call("GET", "/api/v1/site-info", lambda document: read(SiteInfo, document))


def payout_methods(currency: str) -> Call[PayoutMethods]:
    target = "/api/v1/payout-methods?" + urlencode({"currency": currency})
    return Call("GET", target, lambda document: read(PayoutMethods, document))


def bank_list(method_code: str | None) -> Call[BankList]:
    query = "" if method_code is None else "?" + urlencode({"method_code": method_code})
    target = "/api/v1/payout/bank-list" + query
    return Call("GET", target, lambda document: read(BankList, document))


def _is_success(document: object) -> bool:
    return isinstance(document, dict) and document.get("status") == "success"


def _body(order: Mapping[str, object], kind: type) -> bytes:
    # The API ignores unknown fields and would not report a misspelled field name.
    check_names(order, kind)
    given = {name: value for name, value in order.items() if value is not None}
    return _encoded(given)


def _encoded(given: Mapping[str, object]) -> bytes:
    sent = {
        name: _amount(value) if name in AMOUNTS and isinstance(value, str) else value
        for name, value in given.items()
    }
    return exact_json.dumps(sent).encode()


def _amount(text: str) -> Decimal:
    if len(text) > exact_json.DIGITS_MAX or not _DECIMAL.fullmatch(text):
        raise ValueError("The amount is not a decimal number such as 1500.50.")
    return Decimal(text)


def check_names(given: Mapping[str, object], kind: type) -> None:
    unknown = given.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}.")


def _checked_key(given: str) -> str:
    if not isinstance(given, str):
        raise TypeError("An idempotency key is a string.")
    if not 1 <= len(given) <= KEY_LENGTH_MAX or not (given.isascii() and given.isprintable()):
        raise ValueError(f"An idempotency key has 1 to {KEY_LENGTH_MAX} printable characters.")
    return given
