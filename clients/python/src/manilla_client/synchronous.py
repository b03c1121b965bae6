"""The synchronous API client."""

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar, Unpack

from manilla_client import calls, lists, polling
from manilla_client.bodies import (
    AcceptedResend,
    AccountsOrder,
    Amount,
    AttachedPayments,
    Balance,
    BalanceTransaction,
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
from manilla_client.calls import Call, EventQuery, PaymentLinkQuery, Scenario
from manilla_client.conversation import converse
from manilla_client.credentials import Credentials, url_of_environment
from manilla_client.lists import (
    CustomerQuery,
    DisputeQuery,
    InvoiceQuery,
    Item,
    PageCall,
    StatementQuery,
    TransactionQuery,
)
from manilla_client.retries import Retries
from manilla_client.transport import Answer, Failure, Request, Transport

Kind = TypeVar("Kind")
Found = TypeVar("Found", bound=polling.Verified)


class Client:
    """The synchronous, thread-safe client. Close it after use, or use it in a `with` statement."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        retries: Retries | None = None,
        timeout_seconds: float = 30,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._credentials = credentials
        self._retries = retries or Retries()
        self._transport = Transport(url, timeout_seconds, tls)

    @classmethod
    def from_environment(cls) -> Self:
        """Creates a client from environment variables.

        The variables are MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY and MANILLA_API_SECRET.
        """
        return cls(url_of_environment(), Credentials.from_environment())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def initiate_payment(
        self,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **order: Unpack[PaymentOrder],
    ) -> PaymentSession:
        """Creates a checkout session. Redirect the customer to the session's `payment_url`."""
        return self._do(calls.initiate_payment(order, idempotency_key, scenario))

    def verify_payment(self, trx_id: str) -> CompletedPayment | UnfinishedPayment:
        return self._do(calls.verify_payment(trx_id))

    def cancel_payment(self, trx_id: str) -> CanceledPayment:
        """Ends the link of an unpaid payment, before you create another one. Safe to repeat.

        Raises PaymentAlreadyPaid if the customer has paid. `late_money` shows whether money can
        still arrive.
        """
        return self._do(calls.cancel_payment(trx_id))

    def wait_for_payment(
        self, trx_id: str, timeout_seconds: float = 60
    ) -> CompletedPayment | UnfinishedPayment:
        """Returns the payment once its status is final. Raises StillPending on timeout."""
        return self._wait_for(self.verify_payment, trx_id, timeout_seconds)

    def create_payment_link(
        self, *, idempotency_key: str | None = None, **order: Unpack[PaymentLinkOrder]
    ) -> CreatedPaymentLink:
        """Creates a page on which customers pay. Share the page's `url` with your customers."""
        return self._do(calls.create_payment_link(order, idempotency_key))

    def list_payment_links(self, **query: Unpack[PaymentLinkQuery]) -> PaymentLinkPage:
        """Returns a page of payment links, newest first. For the next page, pass `next_cursor`."""
        return self._do(calls.list_payment_links(query))

    def get_payment_link(self, link_id: str) -> PaymentLink:
        return self._do(calls.get_payment_link(link_id))

    def disable_payment_link(
        self, link_id: str, *, idempotency_key: str | None = None
    ) -> CreatedPaymentLink:
        """Disables the payment link. Customers can no longer start payments with it."""
        return self._do(calls.disable_payment_link(link_id, idempotency_key))

    def enable_payment_link(
        self, link_id: str, *, idempotency_key: str | None = None
    ) -> CreatedPaymentLink:
        """Enables a disabled payment link. Customers can start payments with it again."""
        return self._do(calls.enable_payment_link(link_id, idempotency_key))

    def edit_payment_link(self, link_id: str, **change: Unpack[PaymentLinkChange]) -> PaymentLink:
        """Changes the payment link for new payments. The value None removes an optional field."""
        return self._do(calls.edit_payment_link(link_id, change))

    def list_events(self, **query: Unpack[EventQuery]) -> EventPage:
        """Returns a page of events, oldest first. To continue, pass the last id as `since`."""
        return self._do(calls.list_events(query))

    def create_webhook_endpoint(
        self, *, idempotency_key: str | None = None, **order: Unpack[EndpointOrder]
    ) -> EndpointSecret:
        """Creates a URL that receives events. Store its secret, which is returned only once."""
        return self._do(calls.create_webhook_endpoint(order, idempotency_key))

    def list_webhook_endpoints(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> WebhookEndpointPage:
        return self._do(calls.list_webhook_endpoints(limit, cursor))

    def get_webhook_endpoint(self, endpoint_id: str) -> WebhookEndpoint:
        return self._do(calls.get_webhook_endpoint(endpoint_id))

    def change_webhook_endpoint(
        self, endpoint_id: str, **change: Unpack[EndpointChange]
    ) -> WebhookEndpoint:
        return self._do(calls.change_webhook_endpoint(endpoint_id, change))

    def delete_webhook_endpoint(self, endpoint_id: str) -> DeletedEndpoint:
        """Deletes the endpoint and its secret, and stops deliveries to the endpoint."""
        return self._do(calls.delete_webhook_endpoint(endpoint_id))

    def test_webhook_endpoint(
        self, endpoint_id: str, *, idempotency_key: str | None = None
    ) -> EndpointTest:
        """Sends a test event and returns your server's response."""
        return self._do(calls.test_webhook_endpoint(endpoint_id, idempotency_key))

    def rotate_webhook_secret(
        self,
        endpoint_id: str,
        *,
        overlap_minutes: int = 1440,
        idempotency_key: str | None = None,
    ) -> EndpointSecret:
        """Creates a new secret. During the overlap, events are also signed with the old one."""
        return self._do(calls.rotate_webhook_secret(endpoint_id, overlap_minutes, idempotency_key))

    def resend_webhook_events(
        self,
        endpoint_id: str,
        since: datetime,
        *,
        include_delivered: bool = False,
        idempotency_key: str | None = None,
    ) -> AcceptedResend:
        """Resends events that occurred since this time and that the endpoint has not received."""
        return self._do(
            calls.resend_webhook_events(endpoint_id, since, include_delivered, idempotency_key)
        )

    def initiate_refund(
        self,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **order: Unpack[RefundOrder],
    ) -> Refund:
        """Creates a refund. Your wallet is debited immediately, and the customer is refunded."""
        return self._do(calls.initiate_refund(order, idempotency_key, scenario))

    def verify_refund(self, trx_id: str) -> VerifiedRefund:
        return self._do(calls.verify_refund(trx_id))

    def wait_for_refund(self, trx_id: str, timeout_seconds: float = 60) -> VerifiedRefund:
        """Returns the refund once its status is final. Raises StillPending on timeout."""
        return self._wait_for(self.verify_refund, trx_id, timeout_seconds)

    def payments(
        self, **query: Unpack[TransactionQuery]
    ) -> Iterator[CompletedPayment | UnfinishedPayment]:
        """Yields all your payments, newest first. Requests more pages when needed."""
        return self._every(lists.payments(query))

    def payouts(
        self, **query: Unpack[TransactionQuery]
    ) -> Iterator[DeliveredPayout | UndeliveredPayout]:
        """Yields all your payouts, newest first. Requests more pages when needed."""
        return self._every(lists.payouts(query))

    def refunds(self, **query: Unpack[TransactionQuery]) -> Iterator[VerifiedRefund]:
        """Yields all your refunds, newest first. Requests more pages when needed."""
        return self._every(lists.refunds(query))

    def invoices(self, **query: Unpack[InvoiceQuery]) -> Iterator[Invoice]:
        """Yields the invoices for our fees, newest first. Requests more pages when needed."""
        return self._every(lists.invoices(query))

    def get_invoice(self, number: str) -> Invoice:
        return self._do(calls.get_invoice(number))

    def get_invoice_pdf(self, number: str) -> bytes:
        return self._do(calls.get_invoice_pdf(number))

    def get_invoice_xml(self, number: str) -> bytes:
        """Returns the invoice as a UBL 2.1 file."""
        return self._do(calls.get_invoice_xml(number))

    def splits(self) -> Iterator[Split]:
        """Yields all your splits, newest first. Requests more pages when needed."""
        return self._every(lists.splits())

    def get_split(self, split_id: str) -> Split:
        return self._do(calls.get_split(split_id))

    def create_split(
        self, *, idempotency_key: str | None = None, **order: Unpack[SplitOrder]
    ) -> Split:
        """Creates a rule that divides payments between you and other receivers."""
        return self._do(calls.create_split(order, idempotency_key))

    def edit_split(self, split_id: str, **change: Unpack[SplitChange]) -> Split:
        """Creates the next version of a split. Earlier payments keep their version."""
        return self._do(calls.edit_split(split_id, change))

    def disable_split(self, split_id: str, *, idempotency_key: str | None = None) -> Split:
        """Stops new payments with the split."""
        return self._do(calls.disable_split(split_id, idempotency_key))

    def create_sub_account(self, name: str, *, idempotency_key: str | None = None) -> SubAccount:
        """Creates a receiver with wallets and a settlement account of its own."""
        return self._do(calls.create_sub_account(name, idempotency_key))

    def sub_accounts(self) -> SubAccounts:
        return self._do(calls.sub_accounts())

    def release_shares(
        self,
        trx_id: str,
        receiver: str | int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> PaymentShares:
        """Releases the held shares of a payment. A repeated call changes nothing."""
        return self._do(calls.release_shares(trx_id, receiver, idempotency_key))

    def disputes(self, **query: Unpack[DisputeQuery]) -> Iterator[Dispute]:
        """Yields all your disputes, newest first. Requests more pages when needed."""
        return self._every(lists.disputes(query))

    def get_dispute(self, dispute_id: str) -> Dispute:
        return self._do(calls.get_dispute(dispute_id))

    def accept_dispute(
        self,
        dispute_id: str,
        amount: Amount | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Dispute:
        """Accepts that the customer gets the disputed amount back, or a part of it."""
        return self._do(calls.accept_dispute(dispute_id, amount, idempotency_key))

    def set_dispute_evidence(self, dispute_id: str, **evidence: Unpack[DisputeEvidence]) -> Dispute:
        """Saves a text, fields or both. Nothing is sent to the provider before you submit."""
        return self._do(calls.set_dispute_evidence(dispute_id, evidence))

    def add_dispute_file(
        self, dispute_id: str, name: str, content: bytes, *, idempotency_key: str | None = None
    ) -> EvidenceFile:
        """Adds a PDF, PNG or JPEG file of at most 5 MB to the evidence."""
        return self._do(calls.add_dispute_file(dispute_id, name, content, idempotency_key))

    def remove_dispute_file(self, dispute_id: str, file_id: int) -> DeletedFile:
        return self._do(calls.remove_dispute_file(dispute_id, file_id))

    def submit_dispute(self, dispute_id: str, *, idempotency_key: str | None = None) -> Dispute:
        """Sends your evidence to the provider. You cannot change it afterwards."""
        return self._do(calls.submit_dispute(dispute_id, idempotency_key))

    def create_customer(
        self, *, idempotency_key: str | None = None, **order: Unpack[CustomerOrder]
    ) -> CustomerInfo:
        """Creates a customer under your reference. The same order again returns the customer."""
        return self._do(calls.create_customer(order, idempotency_key))

    def customers(self, **query: Unpack[CustomerQuery]) -> Iterator[CustomerInfo]:
        """Yields all your customers, newest first. Requests more pages when needed."""
        return self._every(lists.customers(query))

    def get_customer(self, reference: str) -> CustomerInfo:
        return self._do(calls.get_customer(reference))

    def update_customer(self, reference: str, **change: Unpack[CustomerChange]) -> CustomerInfo:
        """Changes only the fields that you pass. None removes an optional field."""
        return self._do(calls.update_customer(reference, change))

    def disable_customer(
        self, reference: str, *, idempotency_key: str | None = None
    ) -> CustomerInfo:
        """Holds later transfers to the customer's accounts for review."""
        return self._do(calls.switch_customer(reference, "disable", idempotency_key))

    def enable_customer(
        self, reference: str, *, idempotency_key: str | None = None
    ) -> CustomerInfo:
        return self._do(calls.switch_customer(reference, "enable", idempotency_key))

    def request_accounts(
        self, customer: str, *, idempotency_key: str | None = None, **order: Unpack[AccountsOrder]
    ) -> CustomerAccounts:
        """Requests permanent account numbers. They are pending until their providers answer."""
        return self._do(calls.request_accounts(customer, order, idempotency_key))

    def list_accounts(self, customer: str) -> CustomerAccounts:
        """Returns a customer's accounts, oldest first."""
        return self._do(calls.list_accounts(customer))

    def close_account(self, customer: str, account_id: str) -> CustomerAccount:
        """Closes an account. Later transfers to it are held for review."""
        return self._do(calls.close_account(customer, account_id))

    def test_transfer(
        self,
        customer: str,
        *,
        idempotency_key: str | None = None,
        **transfer: Unpack[TransferOrder],
    ) -> SentTransfer:
        """Sends a transfer to a customer's account in the sandbox."""
        return self._do(calls.test_transfer(customer, transfer, idempotency_key))

    def attach_payments(
        self, customer: str, trx_ids: Sequence[str], *, idempotency_key: str | None = None
    ) -> AttachedPayments:
        """Attaches existing payments to a customer."""
        return self._do(calls.attach_payments(customer, trx_ids, idempotency_key))

    def list_ways(self, customer: str) -> SavedWays:
        """Returns a customer's saved cards and mandates."""
        return self._do(calls.list_ways(customer))

    def create_mandate(
        self, customer: str, *, idempotency_key: str | None = None, **order: Unpack[MandateOrder]
    ) -> SavedWay:
        """Asks the customer for a mandate (direct debit)."""
        return self._do(calls.create_mandate(customer, order, idempotency_key))

    def revoke_way(self, customer: str, way_id: str) -> SavedWay:
        """Ends a saved card or mandate for good."""
        return self._do(calls.revoke_way(customer, way_id))

    def charge_way(
        self,
        customer: str,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **charge: Unpack[WayCharge],
    ) -> ChargedWay:
        """Charges a saved card or mandate. Never repeat a pending charge with another `ref_trx`."""
        return self._do(calls.charge_way(customer, charge, idempotency_key, scenario))

    def balance(self) -> Balance:
        return self._do(calls.balance())

    def prices(self, currency: str) -> PricesInForce:
        """Returns what your transactions in a currency cost now."""
        return self._do(calls.prices(currency))

    def balance_transactions(self, **query: Unpack[StatementQuery]) -> Iterator[BalanceTransaction]:
        """Yields your wallets' statement lines, newest first. Requests more pages when needed."""
        return self._every(lists.balance_transactions(query))

    def initiate_payout(
        self,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **order: Unpack[PayoutOrder],
    ) -> Payout:
        """Creates a payout. Your wallet is debited immediately, and the beneficiary is paid."""
        return self._do(calls.initiate_payout(order, idempotency_key, scenario))

    def verify_payout(self, trx_id: str) -> DeliveredPayout | UndeliveredPayout:
        return self._do(calls.verify_payout(trx_id))

    def wait_for_payout(
        self, trx_id: str, timeout_seconds: float = 60
    ) -> DeliveredPayout | UndeliveredPayout:
        """Returns the payout once its status is final. Raises StillPending on timeout."""
        return self._wait_for(self.verify_payout, trx_id, timeout_seconds)

    def payout_methods(self, currency: str) -> PayoutMethods:
        return self._do(calls.payout_methods(currency))

    def bank_list(self, method_code: str | None = None) -> BankList:
        """Returns the banks and bank codes of provider B, or of the given automatic method."""
        return self._do(calls.bank_list(method_code))

    def account(self) -> MerchantAccount:
        """Returns the rights of this API key, and the account's currencies and ways to pay."""
        return self._do(calls.account())

    def site_info(self) -> SiteInfo:
        return self._do(calls.site_info())

    def _do(self, call: Call[Kind]) -> Kind:
        conversation = converse(call, self._credentials, self._retries)
        outcome: Answer | Failure | None = None
        while True:
            try:
                step = conversation.send(outcome)
            except StopIteration as end:
                result: Kind = end.value
                return result
            if isinstance(step, Request):
                outcome = self._transport.send(step)
            else:
                time.sleep(step)
                outcome = None

    def _every(self, page_at: PageCall[Item]) -> Iterator[Item]:
        cursor: str | None = None
        while True:
            page = self._do(page_at(cursor))
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def _wait_for(
        self, verify: Callable[[str], Found], trx_id: str, timeout_seconds: float
    ) -> Found:
        for wait_seconds in polling.waits(timeout_seconds):
            found = verify(trx_id)
            if found.status != "pending":
                return found
            time.sleep(wait_seconds)
        return polling.decided(verify(trx_id), trx_id)
