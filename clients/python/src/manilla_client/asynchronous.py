"""The client for asyncio programs. It runs the synchronous client's calls in threads.

A call mostly waits for the network, so a thread per open call is as efficient as sockets on the
event loop. Both clients share the code that sends and retries requests.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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


class AsyncClient:
    """The asyncio client. Close the client after use, or use it in an `async with` statement.

    Canceling a call stops waiting for the response, but does not undo a request that was sent.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        retries: Retries | None = None,
        timeout_seconds: float = 30,
        tls: ssl.SSLContext | None = None,
        calls_at_once_max: int = 16,
    ) -> None:
        self._credentials = credentials
        self._retries = retries or Retries()
        self._transport = Transport(url, timeout_seconds, tls)
        self._threads = ThreadPoolExecutor(calls_at_once_max, thread_name_prefix="manilla")

    @classmethod
    def from_environment(cls) -> Self:
        """Creates a client from environment variables.

        The variables are MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY and MANILLA_API_SECRET.
        """
        return cls(url_of_environment(), Credentials.from_environment())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits until all open calls have finished, and then closes the client."""
        await asyncio.to_thread(self._threads.shutdown)
        self._transport.close()

    async def initiate_payment(
        self,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **order: Unpack[PaymentOrder],
    ) -> PaymentSession:
        """Creates a checkout session. Redirect the customer to the session's `payment_url`."""
        return await self._do(calls.initiate_payment(order, idempotency_key, scenario))

    async def verify_payment(self, trx_id: str) -> CompletedPayment | UnfinishedPayment:
        return await self._do(calls.verify_payment(trx_id))

    async def cancel_payment(self, trx_id: str) -> CanceledPayment:
        """Ends the link of an unpaid payment, before you create another one. Safe to repeat.

        Raises PaymentAlreadyPaid if the customer has paid. `late_money` shows whether money can
        still arrive.
        """
        return await self._do(calls.cancel_payment(trx_id))

    async def wait_for_payment(
        self, trx_id: str, timeout_seconds: float = 60
    ) -> CompletedPayment | UnfinishedPayment:
        """Returns the payment once its status is final. Raises StillPending on timeout."""
        return await self._wait_for(self.verify_payment, trx_id, timeout_seconds)

    async def create_payment_link(
        self, *, idempotency_key: str | None = None, **order: Unpack[PaymentLinkOrder]
    ) -> CreatedPaymentLink:
        """Creates a page on which customers pay. Share the page's `url` with your customers."""
        return await self._do(calls.create_payment_link(order, idempotency_key))

    async def list_payment_links(self, **query: Unpack[PaymentLinkQuery]) -> PaymentLinkPage:
        """Returns a page of payment links, newest first. For the next page, pass `next_cursor`."""
        return await self._do(calls.list_payment_links(query))

    async def get_payment_link(self, link_id: str) -> PaymentLink:
        return await self._do(calls.get_payment_link(link_id))

    async def disable_payment_link(
        self, link_id: str, *, idempotency_key: str | None = None
    ) -> CreatedPaymentLink:
        """Disables the payment link. Customers can no longer start payments with it."""
        return await self._do(calls.disable_payment_link(link_id, idempotency_key))

    async def enable_payment_link(
        self, link_id: str, *, idempotency_key: str | None = None
    ) -> CreatedPaymentLink:
        """Enables a disabled payment link. Customers can start payments with it again."""
        return await self._do(calls.enable_payment_link(link_id, idempotency_key))

    async def edit_payment_link(
        self, link_id: str, **change: Unpack[PaymentLinkChange]
    ) -> PaymentLink:
        """Changes the payment link for new payments. The value None removes an optional field."""
        return await self._do(calls.edit_payment_link(link_id, change))

    async def list_events(self, **query: Unpack[EventQuery]) -> EventPage:
        """Returns a page of events, oldest first. To continue, pass the last id as `since`."""
        return await self._do(calls.list_events(query))

    async def create_webhook_endpoint(
        self, *, idempotency_key: str | None = None, **order: Unpack[EndpointOrder]
    ) -> EndpointSecret:
        """Creates a URL that receives events. Store its secret, which is returned only once."""
        return await self._do(calls.create_webhook_endpoint(order, idempotency_key))

    async def list_webhook_endpoints(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> WebhookEndpointPage:
        return await self._do(calls.list_webhook_endpoints(limit, cursor))

    async def get_webhook_endpoint(self, endpoint_id: str) -> WebhookEndpoint:
        return await self._do(calls.get_webhook_endpoint(endpoint_id))

    async def change_webhook_endpoint(
        self, endpoint_id: str, **change: Unpack[EndpointChange]
    ) -> WebhookEndpoint:
        return await self._do(calls.change_webhook_endpoint(endpoint_id, change))

    async def delete_webhook_endpoint(self, endpoint_id: str) -> DeletedEndpoint:
        """Deletes the endpoint and its secret, and stops deliveries to the endpoint."""
        return await self._do(calls.delete_webhook_endpoint(endpoint_id))

    async def test_webhook_endpoint(
        self, endpoint_id: str, *, idempotency_key: str | None = None
    ) -> EndpointTest:
        """Sends a test event and returns your server's response."""
        return await self._do(calls.test_webhook_endpoint(endpoint_id, idempotency_key))

    async def rotate_webhook_secret(
        self,
        endpoint_id: str,
        *,
        overlap_minutes: int = 1440,
        idempotency_key: str | None = None,
    ) -> EndpointSecret:
        """Creates a new secret. During the overlap, events are also signed with the old one."""
        return await self._do(
            calls.rotate_webhook_secret(endpoint_id, overlap_minutes, idempotency_key)
        )

    async def resend_webhook_events(
        self,
        endpoint_id: str,
        since: datetime,
        *,
        include_delivered: bool = False,
        idempotency_key: str | None = None,
    ) -> AcceptedResend:
        """Resends events that occurred since this time and that the endpoint has not received."""
        return await self._do(
            calls.resend_webhook_events(endpoint_id, since, include_delivered, idempotency_key)
        )

    async def initiate_refund(
        self,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **order: Unpack[RefundOrder],
    ) -> Refund:
        """Creates a refund. Your wallet is debited immediately, and the customer is refunded."""
        return await self._do(calls.initiate_refund(order, idempotency_key, scenario))

    async def verify_refund(self, trx_id: str) -> VerifiedRefund:
        return await self._do(calls.verify_refund(trx_id))

    async def wait_for_refund(self, trx_id: str, timeout_seconds: float = 60) -> VerifiedRefund:
        """Returns the refund once its status is final. Raises StillPending on timeout."""
        return await self._wait_for(self.verify_refund, trx_id, timeout_seconds)

    def payments(
        self, **query: Unpack[TransactionQuery]
    ) -> AsyncIterator[CompletedPayment | UnfinishedPayment]:
        """Yields all your payments, newest first. Requests more pages when needed."""
        return self._every(lists.payments(query))

    def payouts(
        self, **query: Unpack[TransactionQuery]
    ) -> AsyncIterator[DeliveredPayout | UndeliveredPayout]:
        """Yields all your payouts, newest first. Requests more pages when needed."""
        return self._every(lists.payouts(query))

    def refunds(self, **query: Unpack[TransactionQuery]) -> AsyncIterator[VerifiedRefund]:
        """Yields all your refunds, newest first. Requests more pages when needed."""
        return self._every(lists.refunds(query))

    def invoices(self, **query: Unpack[InvoiceQuery]) -> AsyncIterator[Invoice]:
        """Yields the invoices for our fees, newest first. Requests more pages when needed."""
        return self._every(lists.invoices(query))

    async def get_invoice(self, number: str) -> Invoice:
        return await self._do(calls.get_invoice(number))

    async def get_invoice_pdf(self, number: str) -> bytes:
        return await self._do(calls.get_invoice_pdf(number))

    async def get_invoice_xml(self, number: str) -> bytes:
        """Returns the invoice as a UBL 2.1 file."""
        return await self._do(calls.get_invoice_xml(number))

    def splits(self) -> AsyncIterator[Split]:
        """Yields all your splits, newest first. Requests more pages when needed."""
        return self._every(lists.splits())

    async def get_split(self, split_id: str) -> Split:
        return await self._do(calls.get_split(split_id))

    async def create_split(
        self, *, idempotency_key: str | None = None, **order: Unpack[SplitOrder]
    ) -> Split:
        """Creates a rule that divides payments between you and other receivers."""
        return await self._do(calls.create_split(order, idempotency_key))

    async def edit_split(self, split_id: str, **change: Unpack[SplitChange]) -> Split:
        """Creates the next version of a split. Earlier payments keep their version."""
        return await self._do(calls.edit_split(split_id, change))

    async def disable_split(self, split_id: str, *, idempotency_key: str | None = None) -> Split:
        """Stops new payments with the split."""
        return await self._do(calls.disable_split(split_id, idempotency_key))

    async def create_sub_account(
        self, name: str, *, idempotency_key: str | None = None
    ) -> SubAccount:
        """Creates a receiver with wallets and a settlement account of its own."""
        return await self._do(calls.create_sub_account(name, idempotency_key))

    async def sub_accounts(self) -> SubAccounts:
        return await self._do(calls.sub_accounts())

    async def release_shares(
        self,
        trx_id: str,
        receiver: str | int | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> PaymentShares:
        """Releases the held shares of a payment. A repeated call changes nothing."""
        return await self._do(calls.release_shares(trx_id, receiver, idempotency_key))

    def disputes(self, **query: Unpack[DisputeQuery]) -> AsyncIterator[Dispute]:
        """Yields all your disputes, newest first. Requests more pages when needed."""
        return self._every(lists.disputes(query))

    async def get_dispute(self, dispute_id: str) -> Dispute:
        return await self._do(calls.get_dispute(dispute_id))

    async def accept_dispute(
        self,
        dispute_id: str,
        amount: Amount | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Dispute:
        """Accepts that the customer gets the disputed amount back, or a part of it."""
        return await self._do(calls.accept_dispute(dispute_id, amount, idempotency_key))

    async def set_dispute_evidence(
        self, dispute_id: str, **evidence: Unpack[DisputeEvidence]
    ) -> Dispute:
        """Saves a text, fields or both. Nothing is sent to the provider before you submit."""
        return await self._do(calls.set_dispute_evidence(dispute_id, evidence))

    async def add_dispute_file(
        self, dispute_id: str, name: str, content: bytes, *, idempotency_key: str | None = None
    ) -> EvidenceFile:
        """Adds a PDF, PNG or JPEG file of at most 5 MB to the evidence."""
        return await self._do(calls.add_dispute_file(dispute_id, name, content, idempotency_key))

    async def remove_dispute_file(self, dispute_id: str, file_id: int) -> DeletedFile:
        return await self._do(calls.remove_dispute_file(dispute_id, file_id))

    async def submit_dispute(
        self, dispute_id: str, *, idempotency_key: str | None = None
    ) -> Dispute:
        """Sends your evidence to the provider. You cannot change it afterwards."""
        return await self._do(calls.submit_dispute(dispute_id, idempotency_key))

    async def create_customer(
        self, *, idempotency_key: str | None = None, **order: Unpack[CustomerOrder]
    ) -> CustomerInfo:
        """Creates a customer under your reference. The same order again returns the customer."""
        return await self._do(calls.create_customer(order, idempotency_key))

    def customers(self, **query: Unpack[CustomerQuery]) -> AsyncIterator[CustomerInfo]:
        """Yields all your customers, newest first. Requests more pages when needed."""
        return self._every(lists.customers(query))

    async def get_customer(self, reference: str) -> CustomerInfo:
        return await self._do(calls.get_customer(reference))

    async def update_customer(
        self, reference: str, **change: Unpack[CustomerChange]
    ) -> CustomerInfo:
        """Changes only the fields that you pass. None removes an optional field."""
        return await self._do(calls.update_customer(reference, change))

    async def disable_customer(
        self, reference: str, *, idempotency_key: str | None = None
    ) -> CustomerInfo:
        """Holds later transfers to the customer's accounts for review."""
        return await self._do(calls.switch_customer(reference, "disable", idempotency_key))

    async def enable_customer(
        self, reference: str, *, idempotency_key: str | None = None
    ) -> CustomerInfo:
        return await self._do(calls.switch_customer(reference, "enable", idempotency_key))

    async def request_accounts(
        self, customer: str, *, idempotency_key: str | None = None, **order: Unpack[AccountsOrder]
    ) -> CustomerAccounts:
        """Requests permanent account numbers. They are pending until their providers answer."""
        return await self._do(calls.request_accounts(customer, order, idempotency_key))

    async def list_accounts(self, customer: str) -> CustomerAccounts:
        """Returns a customer's accounts, oldest first."""
        return await self._do(calls.list_accounts(customer))

    async def close_account(self, customer: str, account_id: str) -> CustomerAccount:
        """Closes an account. Later transfers to it are held for review."""
        return await self._do(calls.close_account(customer, account_id))

    async def test_transfer(
        self,
        customer: str,
        *,
        idempotency_key: str | None = None,
        **transfer: Unpack[TransferOrder],
    ) -> SentTransfer:
        """Sends a transfer to a customer's account in the sandbox."""
        return await self._do(calls.test_transfer(customer, transfer, idempotency_key))

    async def attach_payments(
        self, customer: str, trx_ids: Sequence[str], *, idempotency_key: str | None = None
    ) -> AttachedPayments:
        """Attaches existing payments to a customer."""
        return await self._do(calls.attach_payments(customer, trx_ids, idempotency_key))

    async def list_ways(self, customer: str) -> SavedWays:
        """Returns a customer's saved cards and mandates."""
        return await self._do(calls.list_ways(customer))

    async def create_mandate(
        self, customer: str, *, idempotency_key: str | None = None, **order: Unpack[MandateOrder]
    ) -> SavedWay:
        """Asks the customer for a mandate (direct debit)."""
        return await self._do(calls.create_mandate(customer, order, idempotency_key))

    async def revoke_way(self, customer: str, way_id: str) -> SavedWay:
        """Ends a saved card or mandate for good."""
        return await self._do(calls.revoke_way(customer, way_id))

    async def charge_way(
        self,
        customer: str,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **charge: Unpack[WayCharge],
    ) -> ChargedWay:
        """Charges a saved card or mandate. Never repeat a pending charge with another `ref_trx`."""
        return await self._do(calls.charge_way(customer, charge, idempotency_key, scenario))

    async def balance(self) -> Balance:
        return await self._do(calls.balance())

    async def prices(self, currency: str) -> PricesInForce:
        """Returns what your transactions in a currency cost now."""
        return await self._do(calls.prices(currency))

    def balance_transactions(
        self, **query: Unpack[StatementQuery]
    ) -> AsyncIterator[BalanceTransaction]:
        """Yields your wallets' statement lines, newest first. Requests more pages when needed."""
        return self._every(lists.balance_transactions(query))

    async def initiate_payout(
        self,
        *,
        idempotency_key: str | None = None,
        scenario: Scenario | None = None,
        **order: Unpack[PayoutOrder],
    ) -> Payout:
        """Creates a payout. Your wallet is debited immediately, and the beneficiary is paid."""
        return await self._do(calls.initiate_payout(order, idempotency_key, scenario))

    async def verify_payout(self, trx_id: str) -> DeliveredPayout | UndeliveredPayout:
        return await self._do(calls.verify_payout(trx_id))

    async def wait_for_payout(
        self, trx_id: str, timeout_seconds: float = 60
    ) -> DeliveredPayout | UndeliveredPayout:
        """Returns the payout once its status is final. Raises StillPending on timeout."""
        return await self._wait_for(self.verify_payout, trx_id, timeout_seconds)

    async def payout_methods(self, currency: str) -> PayoutMethods:
        return await self._do(calls.payout_methods(currency))

    async def bank_list(self, method_code: str | None = None) -> BankList:
        """Returns the banks and bank codes of provider B, or of the given automatic method."""
        return await self._do(calls.bank_list(method_code))

    async def account(self) -> MerchantAccount:
        """Returns the rights of this API key, and the account's currencies and ways to pay."""
        return await self._do(calls.account())

    async def site_info(self) -> SiteInfo:
        return await self._do(calls.site_info())

    async def _do(self, call: Call[Kind]) -> Kind:
        loop = asyncio.get_running_loop()
        conversation = converse(call, self._credentials, self._retries)
        outcome: Answer | Failure | None = None
        while True:
            try:
                step = conversation.send(outcome)
            except StopIteration as end:
                result: Kind = end.value
                return result
            if isinstance(step, Request):
                outcome = await loop.run_in_executor(self._threads, self._transport.send, step)
            else:
                await asyncio.sleep(step)
                outcome = None

    async def _every(self, page_at: PageCall[Item]) -> AsyncIterator[Item]:
        cursor: str | None = None
        while True:
            page = await self._do(page_at(cursor))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _wait_for(
        self, verify: Callable[[str], Awaitable[Found]], trx_id: str, timeout_seconds: float
    ) -> Found:
        for wait_seconds in polling.waits(timeout_seconds):
            found = await verify(trx_id)
            if found.status != "pending":
                return found
            await asyncio.sleep(wait_seconds)
        return polling.decided(await verify(trx_id), trx_id)
