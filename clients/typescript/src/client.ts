/** The client of the merchant API. */

import { converse } from "./conversation.js";
import { fromEnvironment, Signer, type Credentials } from "./credentials.js";
import { bytes, joined, randomKey, sha256, toHex, type Bytes } from "./crypto.js";
import { StillPending } from "./errors.js";
import { OPERATIONS } from "./generated/shapes.js";
import type * as api from "./generated/types.js";
import { completeRetries, pause, type Retries } from "./retries.js";
import { encode, readAs } from "./shape.js";
import { Transport } from "./transport.js";
import { timeText, type TimeInput } from "./values.js";

const PAGE_ITEMS = 100; // Large pages need fewer requests.
const KEY = /^[\x20-\x7e]{1,255}$/;
const OPTIONS: readonly string[] = ["idempotencyKey", "scenario"];
const SCENARIOS: readonly string[] = ["success", "failed", "pending", "disputed"];
// These operations clear a field that is null. Elsewhere, null means not sent.
const CLEARING: readonly string[] = ["editPaymentLink", "setDisputeEvidence", "updateCustomer"];
const JSON_TYPE = "application/json";
const FIRST_WAIT_SECONDS = 0.5;
const WAIT_SECONDS_MAX = 10;
const WAIT_FOR_SECONDS = 60;
const OVERLAP_MINUTES = 1440;
// These filters have other names in the API, because `from` cannot be a name in some languages.
const FILTERS: Readonly<Record<string, string>> = { since: "from", until: "to" };

export interface ClientOptions {
  retries?: Partial<Retries>;
  /** The time limit of each attempt. */
  timeoutSeconds?: number;
  /** Another function that sends requests, for example with a proxy. */
  fetch?: typeof globalThis.fetch;
}

/** Options of a call that creates or changes something. */
export interface CallOptions {
  /** Chosen by the client if you do not pass a key. Store your own key to retry after a restart. */
  idempotencyKey?: string;
}

/** Options of a call that moves money. */
export interface MoneyOptions extends CallOptions {
  /** The outcome of a sandbox transaction. */
  scenario?: "success" | "failed" | "pending" | "disputed";
}

export interface WaitOptions {
  timeoutSeconds?: number;
}

/** A period of time: `since` is inclusive, `until` is exclusive. */
export interface Period {
  since?: TimeInput | null;
  until?: TimeInput | null;
}

type Filters<Query> = Omit<Query, "from" | "to" | "limit" | "cursor"> & Period;
export type PaymentFilters = Filters<api.ListPaymentsQuery>;
export type PayoutFilters = Filters<api.ListPayoutsQuery>;
export type RefundFilters = Filters<api.ListRefundsQuery>;
export type DisputeFilters = Filters<api.ListDisputesQuery>;
export type CustomerFilters = Omit<api.ListCustomersQuery, "from" | "to" | "limit" | "cursor"> &
  Period;
export type InvoiceFilters = Filters<api.ListInvoicesQuery>;
export type StatementFilters = Filters<api.ListBalanceTransactionsQuery>;
export type PaymentLinkFilters = Filters<api.ListPaymentLinksQuery>;
export type PaymentLinkQuery = Omit<api.ListPaymentLinksQuery, "from" | "to"> & Period;
export type EventQuery = Omit<api.EventsQuery, "since"> & { since?: TimeInput | null };

/** A payment session. `trx_id` is part of the payment URL. Store it with your order. */
export type PaymentSession = api.PaymentSession & { trx_id: string };
export type Payment = api.VerifiedPayment | api.UnfinishedPayment;
export type ListedPayment = api.VerifiedPayment | api.ListedUnfinishedPayment;
export type Payout = api.DeliveredPayout | api.UndeliveredPayout;
export type ListedPayout = api.DeliveredPayout | api.ListedUndeliveredPayout;

type Name = keyof api.Operations & keyof typeof OPERATIONS;

interface Sent {
  content: Bytes;
  type: string;
}

interface Arguments {
  id?: string;
  /** The second id in the path. */
  part?: number | string;
  /** A body that is not JSON. */
  form?: Sent;
  body?: object;
  query?: object;
  options?: MoneyOptions;
}

/** A client for one merchant in one environment. Create one client, and reuse it. */
export class Client {
  readonly #signer: Signer;
  readonly #retries: Retries;
  readonly #transport: Transport;

  constructor(url: string, credentials: Credentials, options: ClientOptions = {}) {
    this.#signer = new Signer(credentials);
    this.#retries = completeRetries(options.retries);
    const fetch = options.fetch ?? globalThis.fetch;
    this.#transport = new Transport(url, options.timeoutSeconds ?? 30, fetch);
  }

  /** Reads MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY and MANILLA_API_SECRET. */
  static fromEnvironment(options: ClientOptions = {}): Client {
    const credentials = {
      merchantKey: fromEnvironment("MANILLA_MERCHANT_KEY"),
      apiKey: fromEnvironment("MANILLA_API_KEY"),
      apiSecret: fromEnvironment("MANILLA_API_SECRET"),
    };
    return new Client(fromEnvironment("MANILLA_URL"), credentials, options);
  }

  get environment(): "sandbox" | "production" {
    return this.#signer.environment;
  }

  /** Returns the rights of this API key, and the account's currencies, limits and ways to pay. */
  account(): Promise<api.MerchantAccount> {
    return this.#call("getAccount");
  }

  siteInfo(): Promise<api.SiteInfo> {
    return this.#call("siteInfo");
  }

  /** Creates a checkout session. Redirect the customer to the session's `payment_url`. */
  initiatePayment(
    order: api.PaymentRequest,
    options: MoneyOptions = {},
  ): Promise<PaymentSession> {
    return this.#call("initiatePayment", { body: order, options }, (session) => {
      const path = new URL(session.payment_url).pathname;
      const trx_id = path.slice(path.lastIndexOf("/") + 1);
      if (!trx_id) throw new TypeError("payment_url does not contain the payment's id.");
      return { ...session, trx_id };
    });
  }

  verifyPayment(trxId: string): Promise<Payment> {
    return this.#call("verifyPayment", { id: trxId });
  }

  /**
   * Ends the link of an unpaid payment, before you create another one. Safe to repeat. Throws
   * PaymentAlreadyPaid if the customer has paid. `late_money` shows whether money can still arrive.
   */
  cancelPayment(trxId: string): Promise<api.CanceledPayment> {
    return this.#call("cancelPayment", { id: trxId });
  }

  /** Returns the payment once its status is final. Throws StillPending on timeout. */
  waitForPayment(trxId: string, options: WaitOptions = {}): Promise<Payment> {
    return this.#waitFor(() => this.verifyPayment(trxId), trxId, options);
  }

  /** Iterates over all your payments, newest first. Requests more pages when needed. */
  payments(filters: PaymentFilters = {}): AsyncGenerator<ListedPayment, void, undefined> {
    return this.#every("listPayments", filters);
  }

  /** Creates a refund. Your wallet is debited immediately, and the customer is refunded. */
  initiateRefund(
    order: api.RefundRequest,
    options: MoneyOptions = {},
  ): Promise<api.InitiatedRefund> {
    return this.#call("initiateRefund", { body: order, options });
  }

  verifyRefund(trxId: string): Promise<api.VerifiedRefund> {
    return this.#call("verifyRefund", { id: trxId });
  }

  /** Returns the refund once its status is final. Throws StillPending on timeout. */
  waitForRefund(trxId: string, options: WaitOptions = {}): Promise<api.VerifiedRefund> {
    return this.#waitFor(() => this.verifyRefund(trxId), trxId, options);
  }

  /** Iterates over all your refunds, newest first. Requests more pages when needed. */
  refunds(filters: RefundFilters = {}): AsyncGenerator<api.VerifiedRefund, void, undefined> {
    return this.#every("listRefunds", filters);
  }

  /** Creates a payout. Your wallet is debited immediately, and the beneficiary is paid. */
  initiatePayout(
    order: api.PayoutRequest,
    options: MoneyOptions = {},
  ): Promise<api.InitiatedPayout> {
    return this.#call("initiatePayout", { body: order, options });
  }

  verifyPayout(trxId: string): Promise<Payout> {
    return this.#call("verifyPayout", { id: trxId });
  }

  /** Returns the payout once its status is final. Throws StillPending on timeout. */
  waitForPayout(trxId: string, options: WaitOptions = {}): Promise<Payout> {
    return this.#waitFor(() => this.verifyPayout(trxId), trxId, options);
  }

  /** Iterates over all your payouts, newest first. Requests more pages when needed. */
  payouts(filters: PayoutFilters = {}): AsyncGenerator<ListedPayout, void, undefined> {
    return this.#every("listPayouts", filters);
  }

  payoutMethods(currency: string): Promise<api.PayoutMethods> {
    return this.#call("payoutMethods", { query: { currency } });
  }

  /** Returns the banks and bank codes of provider B, or of the given automatic method. */
  bankList(methodCode?: string): Promise<api.BankList> {
    return this.#call("payoutBankList", { query: { method_code: methodCode } });
  }

  /** Iterates over the invoices for our fees, newest first. Requests more pages when needed. */
  invoices(filters: InvoiceFilters = {}): AsyncGenerator<api.InvoiceInfo, void, undefined> {
    return this.#every("listInvoices", filters);
  }

  getInvoice(number: string): Promise<api.InvoiceInfo> {
    return this.#call("getInvoice", { id: number });
  }

  getInvoicePdf(number: string): Promise<Uint8Array> {
    return this.#invoiceFile(number, ".pdf", "application/pdf");
  }

  /** Returns the invoice as a UBL 2.1 file. */
  getInvoiceXml(number: string): Promise<Uint8Array> {
    return this.#invoiceFile(number, ".xml", "application/xml");
  }

  /** Iterates over all your splits, newest first. Requests more pages when needed. */
  splits(): AsyncGenerator<api.SplitRuleInfo, void, undefined> {
    return this.#every("listSplits", {});
  }

  getSplit(splitId: string): Promise<api.SplitRuleInfo> {
    return this.#call("getSplit", { id: splitId });
  }

  /** Creates a rule that divides payments between you and other receivers. */
  createSplit(order: api.SplitRequest, options: CallOptions = {}): Promise<api.SplitRuleInfo> {
    return this.#call("createSplit", { body: order, options });
  }

  /** Creates the next version of a split. Earlier payments keep their version. */
  editSplit(splitId: string, change: api.SplitEditRequest): Promise<api.SplitRuleInfo> {
    return this.#call("editSplit", { id: splitId, body: change });
  }

  /** Stops new payments with the split. */
  disableSplit(splitId: string, options: CallOptions = {}): Promise<api.SplitRuleInfo> {
    return this.#call("disableSplit", { id: splitId, options });
  }

  /** Creates a receiver with wallets and a settlement account of its own. */
  createSubAccount(
    order: api.SubAccountRequest,
    options: CallOptions = {},
  ): Promise<api.SubAccountInfo> {
    return this.#call("createSubAccount", { body: order, options });
  }

  subAccounts(): Promise<api.SubAccountList> {
    return this.#call("listSubAccounts", {});
  }

  /** Releases the held shares of a payment. A repeated call changes nothing. */
  releaseShares(
    trxId: string,
    order: api.SplitReleaseRequest = {},
    options: CallOptions = {},
  ): Promise<api.SplitShares> {
    return this.#call("releaseShares", { id: trxId, body: order, options });
  }

  /** Iterates over all your disputes, newest first. Requests more pages when needed. */
  disputes(filters: DisputeFilters = {}): AsyncGenerator<api.DisputeInfo, void, undefined> {
    return this.#every("listDisputes", filters);
  }

  getDispute(disputeId: string): Promise<api.DisputeInfo> {
    return this.#call("getDispute", { id: disputeId });
  }

  /** Accepts that the customer gets the disputed amount back, or a part of it. */
  acceptDispute(
    disputeId: string,
    acceptance: api.DisputeAcceptanceRequest = {},
    options: CallOptions = {},
  ): Promise<api.DisputeInfo> {
    return this.#call("acceptDispute", { id: disputeId, body: acceptance, options });
  }

  /** Saves a text, fields or both. Nothing is sent to the provider before you submit. */
  setDisputeEvidence(
    disputeId: string,
    evidence: api.DisputeEvidenceRequest,
  ): Promise<api.DisputeInfo> {
    return this.#call("setDisputeEvidence", { id: disputeId, body: evidence });
  }

  /** Adds a PDF, PNG or JPEG file of at most 5 MB to the evidence. */
  async addDisputeFile(
    disputeId: string,
    name: string,
    content: Uint8Array,
    options: CallOptions = {},
  ): Promise<api.EvidenceFileInfo> {
    const form = await fileForm(name, joined(content));
    return this.#call("addDisputeFile", { id: disputeId, form, options });
  }

  removeDisputeFile(disputeId: string, fileId: number): Promise<api.DeletedFile> {
    return this.#call("removeDisputeFile", { id: disputeId, part: fileId });
  }

  /** Sends your evidence to the provider. You cannot change it afterwards. */
  submitDispute(disputeId: string, options: CallOptions = {}): Promise<api.DisputeInfo> {
    return this.#call("submitDispute", { id: disputeId, options });
  }

  /** Creates a customer under your reference. The same order again returns the customer. */
  createCustomer(
    order: api.CustomerRequest,
    options: CallOptions = {},
  ): Promise<api.CustomerInfo> {
    return this.#call("createCustomer", { body: order, options });
  }

  /** Iterates over all your customers, newest first. Requests more pages when needed. */
  customers(filters: CustomerFilters = {}): AsyncGenerator<api.CustomerInfo, void, undefined> {
    return this.#every("listCustomers", filters);
  }

  getCustomer(reference: string): Promise<api.CustomerInfo> {
    return this.#call("getCustomer", { id: reference });
  }

  /** Changes only the fields that you pass. The value null removes an optional field. */
  updateCustomer(reference: string, change: api.CustomerEditRequest): Promise<api.CustomerInfo> {
    return this.#call("updateCustomer", { id: reference, body: change });
  }

  /** Holds later transfers to the customer's accounts for review. */
  disableCustomer(reference: string, options: CallOptions = {}): Promise<api.CustomerInfo> {
    return this.#call("disableCustomer", { id: reference, options });
  }

  enableCustomer(reference: string, options: CallOptions = {}): Promise<api.CustomerInfo> {
    return this.#call("enableCustomer", { id: reference, options });
  }

  /** Requests permanent account numbers. They are pending until their providers answer. */
  requestAccounts(
    customer: string,
    order: api.AccountsRequest = {},
    options: CallOptions = {},
  ): Promise<api.AccountList> {
    return this.#call("requestAccounts", { id: customer, body: order, options });
  }

  /** Returns a customer's accounts, oldest first. */
  listAccounts(customer: string): Promise<api.AccountList> {
    return this.#call("listAccounts", { id: customer });
  }

  /** Closes an account. Later transfers to it are held for review. */
  closeAccount(customer: string, accountId: string): Promise<api.AccountInfo> {
    return this.#call("closeAccount", { id: customer, part: accountId });
  }

  /** Sends a transfer to a customer's account in the sandbox. */
  testTransfer(
    customer: string,
    transfer: api.TestTransferRequest,
    options: CallOptions = {},
  ): Promise<api.TestTransferInfo> {
    return this.#call("testTransfer", { id: customer, body: transfer, options });
  }

  /** Attaches existing payments to a customer. */
  attachPayments(
    customer: string,
    payments: api.AttachPaymentsRequest,
    options: CallOptions = {},
  ): Promise<api.AttachedPayments> {
    return this.#call("attachPayments", { id: customer, body: payments, options });
  }

  /** Returns a customer's saved cards and mandates. */
  listWays(customer: string): Promise<api.WayList> {
    return this.#call("listWays", { id: customer });
  }

  /** Asks the customer for a mandate (direct debit). */
  createMandate(
    customer: string,
    order: api.MandateRequest,
    options: CallOptions = {},
  ): Promise<api.WayInfo> {
    return this.#call("createMandate", { id: customer, body: order, options });
  }

  /** Ends a saved card or mandate for good. */
  revokeWay(customer: string, wayId: string): Promise<api.WayInfo> {
    return this.#call("revokeWay", { id: customer, part: wayId });
  }

  /** Charges a saved card or mandate. Never repeat a pending charge with another `ref_trx`. */
  chargeWay(
    customer: string,
    charge: api.WayChargeRequest,
    options: MoneyOptions = {},
  ): Promise<api.WayChargeInfo> {
    return this.#call("chargeWay", { id: customer, body: charge, options });
  }

  balance(): Promise<api.Balance> {
    return this.#call("getBalance");
  }

  /** Returns what your transactions in a currency cost now. */
  prices(currency: string): Promise<api.PricesInForce> {
    return this.#call("getPrices", { query: { currency } });
  }

  /** Iterates over your wallets' statement lines, newest first. */
  balanceTransactions(
    filters: StatementFilters = {},
  ): AsyncGenerator<api.BalanceTransaction, void, undefined> {
    return this.#every("listBalanceTransactions", filters);
  }

  /** Creates a page on which customers pay. Share the page's `url` with your customers. */
  createPaymentLink(
    order: api.PaymentLinkRequest,
    options: CallOptions = {},
  ): Promise<api.CreatedPaymentLink> {
    return this.#call("createPaymentLink", { body: order, options });
  }

  /** Returns a page of payment links, newest first. For the next page, pass `next_cursor`. */
  listPaymentLinks(query: PaymentLinkQuery = {}): Promise<api.PaymentLinkList> {
    return this.#call("listPaymentLinks", { query });
  }

  /** Iterates over all your payment links, newest first. Requests more pages when needed. */
  paymentLinks(
    filters: PaymentLinkFilters = {},
  ): AsyncGenerator<api.PaymentLinkItem, void, undefined> {
    return this.#every("listPaymentLinks", filters);
  }

  getPaymentLink(linkId: string): Promise<api.PaymentLinkItem> {
    return this.#call("getPaymentLink", { id: linkId });
  }

  /** Changes the payment link for new payments. The value null removes an optional field. */
  editPaymentLink(
    linkId: string,
    change: api.PaymentLinkEditRequest,
  ): Promise<api.PaymentLinkItem> {
    return this.#call("editPaymentLink", { id: linkId, body: change });
  }

  /** Disables the payment link. Customers can no longer start payments with it. */
  disablePaymentLink(
    linkId: string,
    options: CallOptions = {},
  ): Promise<api.CreatedPaymentLink> {
    return this.#call("disablePaymentLink", { id: linkId, options });
  }

  /** Enables a disabled payment link. Customers can start payments with it again. */
  enablePaymentLink(
    linkId: string,
    options: CallOptions = {},
  ): Promise<api.CreatedPaymentLink> {
    return this.#call("enablePaymentLink", { id: linkId, options });
  }

  /** Returns a page of events, oldest first. To continue, pass the last id as `since`. */
  listEvents(query: EventQuery = {}): Promise<api.EventList> {
    return this.#call("events", { query: { ...query } });
  }

  /** Iterates over the events that exist now, oldest first. Requests more pages when needed. */
  events(
    filters: Omit<EventQuery, "wait" | "limit" | "cursor"> = {},
  ): AsyncGenerator<api.EventItem, void, undefined> {
    return this.#every("events", filters);
  }

  /** Creates a URL that receives events. Store its secret, which is returned only once. */
  createWebhookEndpoint(
    order: api.WebhookEndpointRequest,
    options: CallOptions = {},
  ): Promise<api.EndpointSecret> {
    return this.#call("createWebhookEndpoint", { body: order, options });
  }

  listWebhookEndpoints(
    query: api.ListWebhookEndpointsQuery = {},
  ): Promise<api.WebhookEndpointList> {
    return this.#call("listWebhookEndpoints", { query });
  }

  /** Iterates over all your webhook endpoints, newest first. */
  webhookEndpoints(): AsyncGenerator<api.WebhookEndpointItem, void, undefined> {
    return this.#every("listWebhookEndpoints", {});
  }

  getWebhookEndpoint(endpointId: string): Promise<api.WebhookEndpointItem> {
    return this.#call("getWebhookEndpoint", { id: endpointId });
  }

  changeWebhookEndpoint(
    endpointId: string,
    change: api.WebhookEndpointChangeRequest,
  ): Promise<api.WebhookEndpointItem> {
    return this.#call("changeWebhookEndpoint", { id: endpointId, body: change });
  }

  /** Deletes the endpoint and its secret, and stops deliveries to the endpoint. */
  deleteWebhookEndpoint(endpointId: string): Promise<api.DeletedEndpoint> {
    return this.#call("deleteWebhookEndpoint", { id: endpointId });
  }

  /** Sends a test event and returns your server's response. */
  testWebhookEndpoint(
    endpointId: string,
    options: CallOptions = {},
  ): Promise<api.EndpointTestResult> {
    return this.#call("testWebhookEndpoint", { id: endpointId, options });
  }

  /** Creates a new secret. During the overlap, events are also signed with the old one. */
  rotateWebhookSecret(
    endpointId: string,
    request: api.RotateSecretRequest = {},
    options: CallOptions = {},
  ): Promise<api.EndpointSecret> {
    const body = { overlap_minutes: OVERLAP_MINUTES, ...request };
    return this.#call("rotateWebhookSecret", { id: endpointId, body, options });
  }

  /** Resends events that occurred since this time and that the endpoint has not received. */
  resendWebhookEvents(
    endpointId: string,
    request: api.ResendEventsRequest,
    options: CallOptions = {},
  ): Promise<api.AcceptedResend> {
    return this.#call("resendWebhookEvents", { id: endpointId, body: request, options });
  }

  async #call<Operation extends Name, Result = api.Operations[Operation]["response"]>(
    name: Operation,
    { id, part, body, form, query = {}, options = {} }: Arguments = {},
    complete?: (response: api.Operations[Operation]["response"]) => Result,
  ): Promise<Result> {
    const operation = OPERATIONS[name];
    const ids = [id, part?.toString()];
    const path = operation.path.replace(/\{[^}]+\}/g, () =>
      encodeURIComponent(checkedId(ids.shift())),
    );
    checkOptions(options);
    const keepsNull = CLEARING.includes(name);
    const json = body && operation.request ? encode(operation.request, body, keepsNull) : "";
    const sent = form ?? { content: bytes(json), type: JSON_TYPE };
    const key = operation.isRepeatable ? await checkedKey(options.idempotencyKey) : null;
    const call = {
      method: operation.method,
      target: path + queryText(name, query),
      headers: {
        Accept: "application/json",
        ...(sent.content.length > 0 ? { "Content-Type": sent.type } : {}),
        ...(key === null ? {} : { "Idempotency-Key": key }),
        ...(options.scenario ? { "X-Sandbox-Scenario": options.scenario } : {}),
      },
      body: sent.content,
      idempotencyKey: key,
      hasOwnKey: options.idempotencyKey !== undefined,
      fileType: null,
    };
    const read = (document: unknown): Result => {
      const response = readAs(operation.response, document);
      return complete ? complete(response as never) : (response as Result);
    };
    return converse(call, read, this.#signer, this.#retries, this.#transport);
  }

  async #invoiceFile(number: string, ending: string, fileType: string): Promise<Uint8Array> {
    const path = OPERATIONS.getInvoice.path.replace(/\{[^}]+\}/, () =>
      encodeURIComponent(checkedId(number)),
    );
    const call = {
      method: "GET",
      target: path + ending,
      headers: { Accept: "application/json" },
      body: bytes(""),
      idempotencyKey: null,
      hasOwnKey: false,
      fileType,
    };
    const read = (content: unknown): Uint8Array => content as Uint8Array;
    return converse(call, read, this.#signer, this.#retries, this.#transport);
  }

  async *#every<Operation extends ListName>(
    name: Operation,
    filters: object,
  ): AsyncGenerator<ItemOf<Operation>, void, undefined> {
    let cursor: string | null = null;
    do {
      const query: object = { limit: PAGE_ITEMS, ...filters, cursor };
      const page: Page<ItemOf<Operation>> = await this.#call<Name>(name, { query }) as never;
      yield* page.data;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  async #waitFor<Found extends { status: string }>(
    verify: () => Promise<Found>,
    trxId: string,
    { timeoutSeconds = WAIT_FOR_SECONDS }: WaitOptions,
  ): Promise<Found> {
    if (!(timeoutSeconds >= 0)) throw new RangeError("timeoutSeconds must not be negative.");
    const deadline = Date.now() + timeoutSeconds * 1000;
    for (let wait = FIRST_WAIT_SECONDS; ; wait = Math.min(wait * 2, WAIT_SECONDS_MAX)) {
      const found = await verify();
      if (found.status !== "pending") return found;
      const left = (deadline - Date.now()) / 1000;
      if (left <= 0) throw new StillPending(trxId);
      await pause(Math.min(wait, left));
    }
  }
}

interface Page<Item> {
  data: Item[];
  next_cursor: string | null;
}

type ListName = {
  [Operation in Name]: api.Operations[Operation]["response"] extends Page<unknown>
    ? Operation
    : never;
}[Name];
type ItemOf<Operation extends ListName> =
  api.Operations[Operation]["response"] extends Page<infer Item> ? Item : never;

function queryText(name: Name, query: object): string {
  const known: readonly string[] = OPERATIONS[name].query;
  const sent: string[] = [];
  for (const [given, value] of Object.entries(query) as [string, unknown][]) {
    const renamed = known.includes(given) ? given : FILTERS[given];
    if (!renamed || !known.includes(renamed)) throw new TypeError(`${name} has no filter ${given}.`);
    if (value === undefined || value === null) continue;
    const text = typeof value === "number" ? String(value) : timeText(value);
    sent.push(`${renamed}=${encodeURIComponent(text)}`);
  }
  return sent.length > 0 ? `?${sent.join("&")}` : "";
}

/** Returns a form with one file. Its boundary depends only on the file, so that repeated calls match. */
async function fileForm(name: string, content: Bytes): Promise<Sent> {
  const boundary = toHex(await sha256(content));
  const quoted = name.replace(/[\r\n"\\]/g, "_");
  const head =
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted}"\r\n` +
    "Content-Type: application/octet-stream\r\n\r\n";
  const whole = joined(bytes(head), content, bytes(`\r\n--${boundary}--\r\n`));
  return { content: whole, type: `multipart/form-data; boundary=${boundary}` };
}

/** Returns the id. An empty id or dots would lead to another path. */
function checkedId(id: unknown): string {
  if (typeof id !== "string" || ["", ".", ".."].includes(id)) {
    throw new TypeError("An id is a string that is not empty.");
  }
  return id;
}

function checkOptions(options: MoneyOptions): void {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) throw new TypeError(`There is no option ${name}.`);
  }
  if (options.scenario !== undefined && !SCENARIOS.includes(options.scenario)) {
    throw new RangeError("A scenario is success, failed, pending or disputed.");
  }
}

async function checkedKey(given: unknown): Promise<string> {
  if (given === undefined) return randomKey();
  if (typeof given !== "string") throw new TypeError("An idempotency key is a string.");
  if (!KEY.test(given)) {
    throw new RangeError("An idempotency key has 1 to 255 printable characters.");
  }
  return given;
}
