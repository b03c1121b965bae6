<?php

declare(strict_types=1);

namespace Manilla;

use Manilla\Errors\ApiError;
use Manilla\Errors\BadAnswer;
use Manilla\Errors\ManillaError;
use Manilla\Errors\NoAnswer;
use Manilla\Errors\StillPending;
use Manilla\Models\AcceptedResend;
use Manilla\Models\AttachedPayments;
use Manilla\Models\Balance;
use Manilla\Models\BalanceTransaction;
use Manilla\Models\BankList;
use Manilla\Models\CanceledPayment;
use Manilla\Models\ChargedWay;
use Manilla\Models\CompletedPayment;
use Manilla\Models\CreatedPaymentLink;
use Manilla\Models\CustomerAccount;
use Manilla\Models\CustomerAccounts;
use Manilla\Models\CustomerInfo;
use Manilla\Models\DeletedEndpoint;
use Manilla\Models\DeletedFile;
use Manilla\Models\DeliveredPayout;
use Manilla\Models\Dispute;
use Manilla\Models\EndpointSecret;
use Manilla\Models\EndpointTest;
use Manilla\Models\Event;
use Manilla\Models\EvidenceFile;
use Manilla\Models\Invoice;
use Manilla\Models\MerchantAccount;
use Manilla\Models\PaymentLink;
use Manilla\Models\PaymentSession;
use Manilla\Models\Payout;
use Manilla\Models\PayoutMethods;
use Manilla\Models\PricesInForce;
use Manilla\Models\Refund;
use Manilla\Models\SavedWay;
use Manilla\Models\SavedWays;
use Manilla\Models\SentTransfer;
use Manilla\Models\SiteInfo;
use Manilla\Models\SplitRuleInfo;
use Manilla\Models\SplitShares;
use Manilla\Models\SubAccountInfo;
use Manilla\Models\SubAccountList;
use Manilla\Models\UndeliveredPayout;
use Manilla\Models\UnfinishedPayment;
use Manilla\Models\VerifiedRefund;
use Manilla\Models\WebhookEndpoint;

/**
 * The client of Manilla's merchant API.
 *
 * Amounts are strings in major units, such as '1500.50'. Times are DateTimeInterface objects.
 *
 * @phpstan-import-type PaymentOrder from Orders
 * @phpstan-import-type PayoutOrder from Orders
 * @phpstan-import-type RefundOrder from Orders
 * @phpstan-import-type DisputeEvidence from Orders
 * @phpstan-import-type CustomerOrder from Orders
 * @phpstan-import-type CustomerChange from Orders
 * @phpstan-import-type AccountsOrder from Orders
 * @phpstan-import-type TransferOrder from Orders
 * @phpstan-import-type MandateOrder from Orders
 * @phpstan-import-type WayCharge from Orders
 * @phpstan-import-type PaymentLinkOrder from Orders
 * @phpstan-import-type PaymentLinkChange from Orders
 * @phpstan-import-type EndpointOrder from Orders
 * @phpstan-import-type EndpointChange from Orders
 * @phpstan-type Time \DateTimeInterface|string
 * @phpstan-type TransactionQuery array{since?: Time, until?: Time, ref_trx?: string, status?: 'pending'|'success'|'failed'}
 * @phpstan-type CustomerQuery array{since?: Time, until?: Time, status?: 'active'|'disabled', search?: string}
 * @phpstan-type InvoiceQuery array{since?: Time, until?: Time, month?: string, currency_code?: string}
 * @phpstan-type DisputeQuery array{since?: Time, until?: Time, ref_trx?: string, trx_id?: string, status?: string, respond_before?: Time}
 * @phpstan-type StatementQuery array{since?: Time, until?: Time, ref_trx?: string, currency_code?: string}
 * @phpstan-type PaymentLinkQuery array{since?: Time, until?: Time, status?: string, limit?: int, cursor?: ?string}
 * @phpstan-type EventQuery array{since?: Time, type?: string, wait?: int, limit?: int, cursor?: ?string}
 * @phpstan-type PageQuery array{limit?: int, cursor?: ?string}
 * @phpstan-type Scenario 'success'|'failed'|'pending'|'disputed'
 */
final class Client
{
    /** The client has the same version number as the platform. */
    public const VERSION = '0.19.0';

    private const LINKS = '/api/v1/payment-links';
    private const DISPUTES = '/api/v1/disputes';
    private const INVOICES = '/api/v1/invoices';
    private const CUSTOMERS = '/api/v1/customers';
    private const SPLITS = '/api/v1/splits';
    private const SUB_ACCOUNTS = '/api/v1/sub-accounts';
    private const ENDPOINTS = '/api/v1/webhook-endpoints';
    private const PERIOD = ['since', 'until', 'ref_trx'];
    private const PAGING = ['limit', 'cursor'];
    private const PAGE_ITEMS = 100; // Large pages need fewer requests.
    // The API returns these errors before it looks for an earlier request with the idempotency key.
    private const EARLY_CODES = ['RATE_LIMIT_EXCEEDED', 'INVALID_CREDENTIALS', 'INSUFFICIENT_PERMISSION'];
    private const FIRST_WAIT_SECONDS = 0.5;
    private const WAIT_SECONDS_MAX = 10.0;

    private const TIMEOUT_SECONDS_LIMIT = 86_400;

    private readonly string $origin;
    private readonly Transport $transport;
    private readonly string $user_agent;

    /**
     * @param ?string $ca_file the certificates to trust, if they differ from the system's
     * @param ?string $proxy the URL of an HTTP proxy; variables such as http_proxy are ignored
     * @param ?Transport $transport sends the requests instead of curl, without `ca_file` and `proxy`
     * @param string $user_agent your program and its version, such as 'my-shop/1.0'
     */
    public function __construct(
        string $url,
        private readonly Credentials $credentials,
        private readonly Retries $retries = new Retries(),
        private readonly float $timeout_seconds = 30,
        ?string $ca_file = null,
        ?string $proxy = null,
        ?Transport $transport = null,
        string $user_agent = '',
    ) {
        if (!($timeout_seconds > 0 && $timeout_seconds <= self::TIMEOUT_SECONDS_LIMIT)) {
            $limit = self::TIMEOUT_SECONDS_LIMIT;
            throw new \InvalidArgumentException("timeout_seconds must be above 0, up to $limit.");
        }
        if (preg_match('/^[ -~]*$/D', $user_agent) !== 1) {
            throw new \InvalidArgumentException('user_agent must be printable ASCII.');
        }
        $this->origin = self::origin($url);
        $this->transport = $transport ?? new CurlTransport($ca_file, $proxy);
        $this->user_agent = trim('manilla-php/' . self::VERSION . ' ' . $user_agent);
    }

    /**
     * Creates a client from environment variables.
     *
     * The variables are MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY and MANILLA_API_SECRET.
     */
    public static function fromEnvironment(): self
    {
        return new self(Credentials::variable('MANILLA_URL'), Credentials::fromEnvironment());
    }

    /**
     * Creates a checkout session. Redirect the customer to the session's `payment_url`.
     *
     * @param PaymentOrder $order
     * @param ?Scenario $scenario the payment's result in the sandbox
     */
    public function initiatePayment(
        array $order,
        ?string $idempotency_key = null,
        ?string $scenario = null,
    ): PaymentSession {
        $body = self::given(Call::converted($order, Orders::PAYMENT_ORDER));
        return $this->do(Call::post(
            '/api/v1/initiate-payment',
            self::session(...),
            $body,
            $idempotency_key,
            $scenario,
        ));
    }

    public function verifyPayment(string $trx_id): CompletedPayment|UnfinishedPayment
    {
        return $this->do(Call::get(Call::path('/api/v1/verify-payment', $trx_id), self::payment(...)));
    }

    /** Returns the payment once its status is final. Throws StillPending on timeout. */
    public function waitForPayment(
        string $trx_id,
        float $timeout_seconds = 60,
    ): CompletedPayment|UnfinishedPayment {
        return $this->waitFor($this->verifyPayment(...), $trx_id, $timeout_seconds);
    }

    /**
     * Ends the link of an unpaid payment, before you create another one. Safe to repeat.
     *
     * Throws PaymentAlreadyPaid if the customer has paid. `late_money` shows whether money can still
     * arrive.
     */
    public function cancelPayment(string $trx_id): CanceledPayment
    {
        $path = Call::path('/api/v1/payments', $trx_id, '/cancel');
        return $this->do(Call::send('POST', $path, CanceledPayment::read(...)));
    }

    /**
     * Yields all your payments, newest first. Requests more pages when needed.
     *
     * @param TransactionQuery $query
     * @return \Generator<int, CompletedPayment|UnfinishedPayment>
     */
    public function payments(array $query = []): \Generator
    {
        return $this->every('/api/v1/payments', self::payment(...), $query, [...self::PERIOD, 'status']);
    }

    /**
     * Creates a page on which customers pay. Share the page's `url` with your customers.
     *
     * @param PaymentLinkOrder $order
     */
    public function createPaymentLink(array $order, ?string $idempotency_key = null): CreatedPaymentLink
    {
        $body = self::given(Call::converted($order, Orders::PAYMENT_LINK_ORDER));
        return $this->do(Call::post(self::LINKS, CreatedPaymentLink::read(...), $body, $idempotency_key));
    }

    /**
     * Returns a page of payment links, newest first.
     *
     * @param PaymentLinkQuery $query
     * @return Page<PaymentLink>
     */
    public function listPaymentLinks(array $query = []): Page
    {
        $known = ['since', 'until', 'status', ...self::PAGING];
        return $this->page(self::LINKS, PaymentLink::read(...), self::period($query, $known));
    }

    /**
     * Yields all your payment links, newest first. Requests more pages when needed.
     *
     * @param array{since?: Time, until?: Time, status?: string} $query
     * @return \Generator<int, PaymentLink>
     */
    public function paymentLinks(array $query = []): \Generator
    {
        return $this->every(self::LINKS, PaymentLink::read(...), $query, ['since', 'until', 'status']);
    }

    public function getPaymentLink(string $link_id): PaymentLink
    {
        return $this->do(Call::get(Call::path(self::LINKS, $link_id), PaymentLink::read(...)));
    }

    /**
     * Changes the payment link for new payments. The value null removes an optional field.
     *
     * @param PaymentLinkChange $change
     */
    public function editPaymentLink(string $link_id, array $change): PaymentLink
    {
        // Fields that are null are sent as null, which tells the API to clear them.
        $body = Call::converted($change, Orders::PAYMENT_LINK_CHANGE);
        return $this->do(Call::send('PATCH', Call::path(self::LINKS, $link_id), PaymentLink::read(...), $body));
    }

    /** Disables the payment link. Customers can no longer start payments with it. */
    public function disablePaymentLink(string $link_id, ?string $idempotency_key = null): CreatedPaymentLink
    {
        $path = Call::path(self::LINKS, $link_id, '/disable');
        return $this->do(Call::post($path, CreatedPaymentLink::read(...), null, $idempotency_key));
    }

    /** Enables a disabled payment link. Customers can start payments with it again. */
    public function enablePaymentLink(string $link_id, ?string $idempotency_key = null): CreatedPaymentLink
    {
        $path = Call::path(self::LINKS, $link_id, '/enable');
        return $this->do(Call::post($path, CreatedPaymentLink::read(...), null, $idempotency_key));
    }

    /**
     * Creates a refund. Your wallet is debited immediately, and the customer is refunded.
     *
     * @param RefundOrder $order
     * @param ?Scenario $scenario the refund's result in the sandbox
     */
    public function initiateRefund(
        array $order,
        ?string $idempotency_key = null,
        ?string $scenario = null,
    ): Refund {
        $body = self::given(Call::converted($order, Orders::REFUND_ORDER));
        return $this->do(Call::post(
            '/api/v1/initiate-refund',
            Refund::read(...),
            $body,
            $idempotency_key,
            $scenario,
        ));
    }

    public function verifyRefund(string $trx_id): VerifiedRefund
    {
        return $this->do(Call::get(Call::path('/api/v1/verify-refund', $trx_id), VerifiedRefund::read(...)));
    }

    /** Returns the refund once its status is final. Throws StillPending on timeout. */
    public function waitForRefund(string $trx_id, float $timeout_seconds = 60): VerifiedRefund
    {
        return $this->waitFor($this->verifyRefund(...), $trx_id, $timeout_seconds);
    }

    /**
     * Yields all your refunds, newest first. Requests more pages when needed.
     *
     * @param TransactionQuery $query
     * @return \Generator<int, VerifiedRefund>
     */
    public function refunds(array $query = []): \Generator
    {
        return $this->every('/api/v1/refunds', VerifiedRefund::read(...), $query, [...self::PERIOD, 'status']);
    }

    /**
     * Yields the invoices for our fees, newest first. Requests more pages when needed.
     *
     * @param InvoiceQuery $query
     * @return \Generator<int, Invoice>
     */
    public function invoices(array $query = []): \Generator
    {
        $known = ['since', 'until', 'month', 'currency_code'];
        return $this->every(self::INVOICES, Invoice::read(...), $query, $known);
    }

    public function getInvoice(string $number): Invoice
    {
        return $this->do(Call::get(Call::path(self::INVOICES, $number), Invoice::read(...)));
    }

    public function getInvoicePdf(string $number): string
    {
        return $this->do(Call::file(Call::path(self::INVOICES, $number, '.pdf'), 'application/pdf'));
    }

    /** Returns the invoice as a UBL 2.1 file. */
    public function getInvoiceXml(string $number): string
    {
        return $this->do(Call::file(Call::path(self::INVOICES, $number, '.xml'), 'application/xml'));
    }

    /**
     * Yields all your splits, newest first. Requests more pages when needed.
     *
     * @return \Generator<int, SplitRuleInfo>
     */
    public function splits(): \Generator
    {
        return $this->every(self::SPLITS, SplitRuleInfo::read(...), [], []);
    }

    public function getSplit(string $split_id): SplitRuleInfo
    {
        return $this->do(Call::get(Call::path(self::SPLITS, $split_id), SplitRuleInfo::read(...)));
    }

    /**
     * Creates a rule that divides payments between you and other receivers.
     *
     * @param array<string, mixed> $order percentages and amounts are numbers
     */
    public function createSplit(array $order, ?string $idempotency_key = null): SplitRuleInfo
    {
        return $this->do(Call::post(self::SPLITS, SplitRuleInfo::read(...), $order, $idempotency_key));
    }

    /**
     * Creates the next version of a split. Earlier payments keep their version.
     *
     * @param array<string, mixed> $change
     */
    public function editSplit(string $split_id, array $change): SplitRuleInfo
    {
        $path = Call::path(self::SPLITS, $split_id);
        return $this->do(Call::send('PATCH', $path, SplitRuleInfo::read(...), $change));
    }

    /** Stops new payments with the split. */
    public function disableSplit(string $split_id, ?string $idempotency_key = null): SplitRuleInfo
    {
        $path = Call::path(self::SPLITS, $split_id, '/disable');
        return $this->do(Call::post($path, SplitRuleInfo::read(...), null, $idempotency_key));
    }

    /** Creates a receiver with wallets and a settlement account of its own. */
    public function createSubAccount(string $name, ?string $idempotency_key = null): SubAccountInfo
    {
        $body = ['name' => $name];
        return $this->do(Call::post(self::SUB_ACCOUNTS, SubAccountInfo::read(...), $body, $idempotency_key));
    }

    public function subAccounts(): SubAccountList
    {
        return $this->do(Call::get(self::SUB_ACCOUNTS, SubAccountList::read(...)));
    }

    /** Releases the held shares of a payment. A repeated call changes nothing. */
    public function releaseShares(
        string $trx_id,
        string|int|null $receiver = null,
        ?string $idempotency_key = null,
    ): SplitShares {
        $path = Call::path('/api/v1/payments', $trx_id, '/release');
        $body = self::given(['receiver' => $receiver]);
        return $this->do(Call::post($path, SplitShares::read(...), $body, $idempotency_key));
    }

    /**
     * Yields all your disputes, newest first. Requests more pages when needed.
     *
     * @param DisputeQuery $query `ref_trx` and `trx_id` are the payment's
     * @return \Generator<int, Dispute>
     */
    public function disputes(array $query = []): \Generator
    {
        $known = [...self::PERIOD, 'trx_id', 'status', 'respond_before'];
        return $this->every(self::DISPUTES, Dispute::read(...), $query, $known);
    }

    public function getDispute(string $dispute_id): Dispute
    {
        return $this->do(Call::get(Call::path(self::DISPUTES, $dispute_id), Dispute::read(...)));
    }

    /** Accepts that the customer gets the disputed amount back, or a part of it. */
    public function acceptDispute(
        string $dispute_id,
        ?string $amount = null,
        ?string $idempotency_key = null,
    ): Dispute {
        $path = Call::path(self::DISPUTES, $dispute_id, '/accept');
        $body = self::given(Call::converted(['amount' => $amount], ['amount' => 'amount']));
        return $this->do(Call::post($path, Dispute::read(...), $body, $idempotency_key));
    }

    /**
     * Saves a text, fields or both. Nothing is sent to the provider before you submit.
     *
     * @param DisputeEvidence $evidence null removes a part
     */
    public function setDisputeEvidence(string $dispute_id, array $evidence): Dispute
    {
        $path = Call::path(self::DISPUTES, $dispute_id, '/evidence');
        $body = Call::converted($evidence, Orders::DISPUTE_EVIDENCE);
        return $this->do(Call::send('PUT', $path, Dispute::read(...), $body));
    }

    /** Adds a PDF, PNG or JPEG file of at most 5 MB to the evidence. */
    public function addDisputeFile(
        string $dispute_id,
        string $name,
        string $content,
        ?string $idempotency_key = null,
    ): EvidenceFile {
        $path = Call::path(self::DISPUTES, $dispute_id, '/files');
        return $this->do(Call::upload($path, EvidenceFile::read(...), $name, $content, $idempotency_key));
    }

    public function removeDisputeFile(string $dispute_id, int $file_id): DeletedFile
    {
        $path = Call::path(self::DISPUTES, $dispute_id, "/files/$file_id");
        return $this->do(Call::send('DELETE', $path, DeletedFile::read(...)));
    }

    /** Sends your evidence to the provider. You cannot change it afterwards. */
    public function submitDispute(string $dispute_id, ?string $idempotency_key = null): Dispute
    {
        $path = Call::path(self::DISPUTES, $dispute_id, '/submit');
        return $this->do(Call::post($path, Dispute::read(...), null, $idempotency_key));
    }

    /**
     * Creates a customer under your reference. The same order again returns the customer.
     *
     * @param CustomerOrder $order
     */
    public function createCustomer(array $order, ?string $idempotency_key = null): CustomerInfo
    {
        $body = self::given(Call::converted($order, Orders::CUSTOMER_ORDER));
        return $this->do(Call::post(self::CUSTOMERS, CustomerInfo::read(...), $body, $idempotency_key));
    }

    /**
     * Yields all your customers, newest first. Requests more pages when needed.
     *
     * @param CustomerQuery $query
     * @return \Generator<int, CustomerInfo>
     */
    public function customers(array $query = []): \Generator
    {
        $known = ['since', 'until', 'status', 'search'];
        return $this->every(self::CUSTOMERS, CustomerInfo::read(...), $query, $known);
    }

    public function getCustomer(string $reference): CustomerInfo
    {
        return $this->do(Call::get(Call::path(self::CUSTOMERS, $reference), CustomerInfo::read(...)));
    }

    /**
     * Changes only the fields that you pass. The value null removes an optional field.
     *
     * @param CustomerChange $change
     */
    public function updateCustomer(string $reference, array $change): CustomerInfo
    {
        $body = Call::converted($change, Orders::CUSTOMER_CHANGE);
        return $this->do(Call::send('PATCH', Call::path(self::CUSTOMERS, $reference), CustomerInfo::read(...), $body));
    }

    /** Holds later transfers to the customer's accounts for review. */
    public function disableCustomer(string $reference, ?string $idempotency_key = null): CustomerInfo
    {
        $path = Call::path(self::CUSTOMERS, $reference, '/disable');
        return $this->do(Call::post($path, CustomerInfo::read(...), null, $idempotency_key));
    }

    public function enableCustomer(string $reference, ?string $idempotency_key = null): CustomerInfo
    {
        $path = Call::path(self::CUSTOMERS, $reference, '/enable');
        return $this->do(Call::post($path, CustomerInfo::read(...), null, $idempotency_key));
    }

    /**
     * Requests permanent account numbers. They are pending until their providers answer.
     *
     * @param AccountsOrder $order
     */
    public function requestAccounts(
        string $customer,
        array $order = [],
        ?string $idempotency_key = null,
    ): CustomerAccounts {
        $path = Call::path(self::CUSTOMERS, $customer, '/accounts');
        $body = self::given(Call::converted($order, Orders::ACCOUNTS_ORDER));
        return $this->do(Call::post($path, CustomerAccounts::read(...), $body, $idempotency_key));
    }

    /** Returns a customer's accounts, oldest first. */
    public function listAccounts(string $customer): CustomerAccounts
    {
        $path = Call::path(self::CUSTOMERS, $customer, '/accounts');
        return $this->do(Call::get($path, CustomerAccounts::read(...)));
    }

    /** Closes an account. Later transfers to it are held for review. */
    public function closeAccount(string $customer, string $account_id): CustomerAccount
    {
        $path = Call::path(Call::path(self::CUSTOMERS, $customer, '/accounts'), $account_id);
        return $this->do(Call::send('DELETE', $path, CustomerAccount::read(...)));
    }

    /**
     * Sends a transfer to a customer's account in the sandbox.
     *
     * @param TransferOrder $transfer
     */
    public function testTransfer(
        string $customer,
        array $transfer,
        ?string $idempotency_key = null,
    ): SentTransfer {
        $path = Call::path(self::CUSTOMERS, $customer, '/test-transfer');
        $body = self::given(Call::converted($transfer, Orders::TRANSFER_ORDER));
        return $this->do(Call::post($path, SentTransfer::read(...), $body, $idempotency_key));
    }

    /**
     * Attaches existing payments to a customer.
     *
     * @param array{trx_ids: list<string>} $payments
     */
    public function attachPayments(
        string $customer,
        array $payments,
        ?string $idempotency_key = null,
    ): AttachedPayments {
        $path = Call::path(self::CUSTOMERS, $customer, '/attach');
        return $this->do(Call::post($path, AttachedPayments::read(...), $payments, $idempotency_key));
    }

    /** Returns a customer's saved cards and mandates. */
    public function listWays(string $customer): SavedWays
    {
        return $this->do(Call::get(Call::path(self::CUSTOMERS, $customer, '/ways'), SavedWays::read(...)));
    }

    /**
     * Asks the customer for a mandate (direct debit).
     *
     * @param MandateOrder $order
     */
    public function createMandate(string $customer, array $order, ?string $idempotency_key = null): SavedWay
    {
        $path = Call::path(self::CUSTOMERS, $customer, '/ways');
        $body = self::given(Call::converted($order, Orders::MANDATE_ORDER));
        return $this->do(Call::post($path, SavedWay::read(...), $body, $idempotency_key));
    }

    /** Ends a saved card or mandate for good. */
    public function revokeWay(string $customer, string $way_id): SavedWay
    {
        $path = Call::path(Call::path(self::CUSTOMERS, $customer, '/ways'), $way_id);
        return $this->do(Call::send('DELETE', $path, SavedWay::read(...)));
    }

    /**
     * Charges a saved card or mandate. Never repeat a pending charge with another `ref_trx`.
     *
     * @param WayCharge $charge
     * @param Scenario|null $scenario
     */
    public function chargeWay(
        string $customer,
        array $charge,
        ?string $idempotency_key = null,
        ?string $scenario = null,
    ): ChargedWay {
        $path = Call::path(self::CUSTOMERS, $customer, '/charges');
        $body = self::given(Call::converted($charge, Orders::WAY_CHARGE));
        return $this->do(Call::post($path, ChargedWay::read(...), $body, $idempotency_key, $scenario));
    }

    public function balance(): Balance
    {
        return $this->do(Call::get('/api/v1/balance', Balance::read(...)));
    }

    /** Returns what your transactions in a currency cost now. */
    public function prices(string $currency): PricesInForce
    {
        return $this->do(Call::get('/api/v1/prices', PricesInForce::read(...), ['currency' => $currency]));
    }

    /**
     * Yields your wallets' statement lines, newest first. Requests more pages when needed.
     *
     * @param StatementQuery $query
     * @return \Generator<int, BalanceTransaction>
     */
    public function balanceTransactions(array $query = []): \Generator
    {
        $known = [...self::PERIOD, 'currency_code'];
        return $this->every('/api/v1/balance-transactions', BalanceTransaction::read(...), $query, $known);
    }

    public function payoutMethods(string $currency): PayoutMethods
    {
        return $this->do(Call::get('/api/v1/payout-methods', PayoutMethods::read(...), ['currency' => $currency]));
    }

    /** Returns the banks and bank codes of provider B, or of the given automatic method. */
    public function bankList(?string $method_code = null): BankList
    {
        $query = ['method_code' => $method_code];
        return $this->do(Call::get('/api/v1/payout/bank-list', BankList::read(...), $query));
    }

    /**
     * Creates a payout. Your wallet is debited immediately, and the beneficiary is paid.
     *
     * @param PayoutOrder $order
     * @param ?Scenario $scenario the payout's result in the sandbox
     */
    public function initiatePayout(
        array $order,
        ?string $idempotency_key = null,
        ?string $scenario = null,
    ): Payout {
        $body = self::given(Call::converted($order, Orders::PAYOUT_ORDER));
        return $this->do(Call::post(
            '/api/v1/initiate-payout',
            Payout::read(...),
            $body,
            $idempotency_key,
            $scenario,
        ));
    }

    public function verifyPayout(string $trx_id): DeliveredPayout|UndeliveredPayout
    {
        return $this->do(Call::get(Call::path('/api/v1/verify-payout', $trx_id), self::payout(...)));
    }

    /** Returns the payout once its status is final. Throws StillPending on timeout. */
    public function waitForPayout(
        string $trx_id,
        float $timeout_seconds = 60,
    ): DeliveredPayout|UndeliveredPayout {
        return $this->waitFor($this->verifyPayout(...), $trx_id, $timeout_seconds);
    }

    /**
     * Yields all your payouts, newest first. Requests more pages when needed.
     *
     * @param TransactionQuery $query
     * @return \Generator<int, DeliveredPayout|UndeliveredPayout>
     */
    public function payouts(array $query = []): \Generator
    {
        return $this->every('/api/v1/payouts', self::payout(...), $query, [...self::PERIOD, 'status']);
    }

    /**
     * Returns a page of events, oldest first. To continue, pass the last event's id as `since`.
     *
     * @param EventQuery $query
     * @return Page<Event>
     */
    public function listEvents(array $query = []): Page
    {
        Call::checkNames($query, ['since', 'type', 'wait', ...self::PAGING]);
        return $this->page('/api/v1/events', Event::read(...), $query);
    }

    /**
     * Creates a URL that receives events. Store its secret, which is returned only once.
     *
     * @param EndpointOrder $order
     */
    public function createWebhookEndpoint(array $order, ?string $idempotency_key = null): EndpointSecret
    {
        $body = self::given(Call::converted($order, Orders::ENDPOINT_ORDER));
        return $this->do(Call::post(self::ENDPOINTS, EndpointSecret::read(...), $body, $idempotency_key));
    }

    /**
     * Returns a page of webhook endpoints, newest first.
     *
     * @param PageQuery $query
     * @return Page<WebhookEndpoint>
     */
    public function listWebhookEndpoints(array $query = []): Page
    {
        Call::checkNames($query, self::PAGING);
        return $this->page(self::ENDPOINTS, WebhookEndpoint::read(...), $query);
    }

    public function getWebhookEndpoint(string $endpoint_id): WebhookEndpoint
    {
        return $this->do(Call::get(Call::path(self::ENDPOINTS, $endpoint_id), WebhookEndpoint::read(...)));
    }

    /** @param EndpointChange $change */
    public function changeWebhookEndpoint(string $endpoint_id, array $change): WebhookEndpoint
    {
        $path = Call::path(self::ENDPOINTS, $endpoint_id);
        $body = self::given(Call::converted($change, Orders::ENDPOINT_CHANGE));
        return $this->do(Call::send('PATCH', $path, WebhookEndpoint::read(...), $body));
    }

    /** Deletes the endpoint and its secret, and stops deliveries to the endpoint. */
    public function deleteWebhookEndpoint(string $endpoint_id): DeletedEndpoint
    {
        $path = Call::path(self::ENDPOINTS, $endpoint_id);
        return $this->do(Call::send('DELETE', $path, DeletedEndpoint::read(...)));
    }

    /** Sends a test event and returns your server's response. */
    public function testWebhookEndpoint(string $endpoint_id, ?string $idempotency_key = null): EndpointTest
    {
        $path = Call::path(self::ENDPOINTS, $endpoint_id, '/test');
        return $this->do(Call::post($path, EndpointTest::read(...), null, $idempotency_key));
    }

    /** Creates a new secret. During the overlap, events are also signed with the old one. */
    public function rotateWebhookSecret(
        string $endpoint_id,
        int $overlap_minutes = 1440,
        ?string $idempotency_key = null,
    ): EndpointSecret {
        $path = Call::path(self::ENDPOINTS, $endpoint_id, '/rotate-secret');
        $body = ['overlap_minutes' => $overlap_minutes];
        return $this->do(Call::post($path, EndpointSecret::read(...), $body, $idempotency_key));
    }

    /**
     * Resends events that occurred since this time and that the endpoint has not received.
     *
     * @param Time $since
     */
    public function resendWebhookEvents(
        string $endpoint_id,
        \DateTimeInterface|string $since,
        bool $include_delivered = false,
        ?string $idempotency_key = null,
    ): AcceptedResend {
        $path = Call::path(self::ENDPOINTS, $endpoint_id, '/resend');
        $body = ['since' => Call::time($since), 'include_delivered' => $include_delivered];
        return $this->do(Call::post($path, AcceptedResend::read(...), $body, $idempotency_key));
    }

    /** Returns the rights of this API key, and your account's currencies, limits and ways to pay. */
    public function account(): MerchantAccount
    {
        return $this->do(Call::get('/api/v1/account', MerchantAccount::read(...)));
    }

    public function siteInfo(): SiteInfo
    {
        return $this->do(Call::get('/api/v1/site-info', SiteInfo::read(...)));
    }

    private static function origin(string $url): string
    {
        $parts = parse_url($url);
        if (!is_array($parts) || !in_array($parts['scheme'] ?? '', ['http', 'https'], true) || !isset($parts['host'])) {
            throw new \InvalidArgumentException('The URL must start with https:// or http://, followed by a host.');
        }
        $others = array_diff_key($parts, array_flip(['scheme', 'host', 'port']));
        if ($others !== [] && $others !== ['path' => '/']) {
            // The signature covers the path that the API receives, so no path prefix is allowed.
            throw new \InvalidArgumentException('The URL must have only a host, without a path.');
        }
        $port = isset($parts['port']) ? ':' . $parts['port'] : '';
        return $parts['scheme'] . '://' . $parts['host'] . $port;
    }

    private static function session(Document $document): PaymentSession
    {
        $session = PaymentSession::read($document);
        return $session->trx_id !== ''
            ? $session
            : throw new BadAnswer("PaymentSession.payment_url does not contain the payment's id.");
    }

    private static function payment(Document $document): CompletedPayment|UnfinishedPayment
    {
        $is_completed = $document->string('status') === 'success';
        return $is_completed ? CompletedPayment::read($document) : UnfinishedPayment::read($document);
    }

    private static function payout(Document $document): DeliveredPayout|UndeliveredPayout
    {
        $is_delivered = $document->string('status') === 'success';
        return $is_delivered ? DeliveredPayout::read($document) : UndeliveredPayout::read($document);
    }

    /**
     * @param array<string, mixed> $order
     * @return array<string, mixed> the order without the fields that are null
     */
    private static function given(array $order): array
    {
        return array_filter($order, static fn (mixed $value): bool => $value !== null);
    }

    /**
     * Checks the filters' names, and returns the filters with the API's names for the period.
     *
     * @param array<string, mixed> $query
     * @param list<string> $known
     * @return array<string, mixed>
     */
    private static function period(array $query, array $known): array
    {
        Call::checkNames($query, $known);
        $period = ['from' => $query['since'] ?? null, 'to' => $query['until'] ?? null];
        return $period + array_diff_key($query, ['since' => true, 'until' => true]);
    }

    /**
     * @template T
     * @param callable(Document): T $read_item
     * @param array<string, mixed> $query
     * @return Page<T>
     */
    private function page(string $path, callable $read_item, array $query): Page
    {
        return $this->do(Call::get($path, static fn (Document $page) => Page::read($page, $read_item), $query));
    }

    /**
     * @template T
     * @param callable(Document): T $read_item
     * @param array<string, mixed> $query
     * @param list<string> $known
     * @return \Generator<int, T>
     */
    private function every(string $path, callable $read_item, array $query, array $known): \Generator
    {
        // An unknown filter is reported here, and not only when the first item is requested.
        return $this->pages($path, $read_item, self::period($query, $known));
    }

    /**
     * @template T
     * @param callable(Document): T $read_item
     * @param array<string, mixed> $query
     * @return \Generator<int, T>
     */
    private function pages(string $path, callable $read_item, array $query): \Generator
    {
        $cursor = null;
        do {
            $page = $this->page($path, $read_item, ['limit' => self::PAGE_ITEMS, 'cursor' => $cursor] + $query);
            foreach ($page->data as $item) {
                yield $item; // `yield from` would repeat the keys on each page.
            }
            $cursor = $page->next_cursor;
        } while ($cursor !== null);
    }

    /**
     * Polls until the status is final. The wait doubles after each poll, up to a maximum.
     *
     * @template T of object{status: string}
     * @param callable(string): T $verify
     * @return T
     */
    private function waitFor(callable $verify, string $trx_id, float $timeout_seconds): object
    {
        if (!($timeout_seconds >= 0)) {
            throw new \InvalidArgumentException('timeout_seconds must not be negative.');
        }
        $deadline = hrtime(true) / 1e9 + $timeout_seconds;
        $next_seconds = self::FIRST_WAIT_SECONDS;
        while (true) {
            $found = $verify($trx_id);
            if ($found->status !== 'pending') {
                return $found;
            }
            $left_seconds = $deadline - hrtime(true) / 1e9;
            if ($left_seconds <= 0) {
                throw new StillPending($trx_id);
            }
            self::sleep(min($next_seconds, $left_seconds));
            $next_seconds = min($next_seconds * 2, self::WAIT_SECONDS_MAX);
        }
    }

    /**
     * Performs one call, from the first attempt to the result.
     *
     * @template T
     * @param Call<T> $call
     * @return T
     */
    private function do(Call $call): mixed
    {
        $outcome_unknown = false;
        for ($attempts = 1;; $attempts++) {
            $outcome = $this->attempt($call);
            $outcome_unknown = $outcome_unknown || self::mayHaveTakenEffect($call, $outcome);
            if ($outcome instanceof Answer && $outcome->status === 200) {
                try {
                    return $call->read($outcome);
                } catch (\JsonException $error) {
                    $outcome = new Failure('The response cannot be parsed: ' . $error->getMessage() . '.');
                } catch (BadAnswer | \TypeError | \ValueError $error) {
                    throw new BadAnswer($error->getMessage(), $outcome_unknown, $call->idempotency_key);
                }
            }
            $wait_seconds = $this->waitSeconds($outcome, $attempts);
            if ($wait_seconds === null) {
                throw $outcome instanceof Failure
                    ? new NoAnswer($outcome->reason, $outcome_unknown, $call->idempotency_key)
                    : ApiError::of($outcome, $outcome_unknown, $call->idempotency_key);
            }
            self::sleep($wait_seconds);
        }
    }

    /**
     * Returns true unless the API itself has rejected the request.
     *
     * An error without an error code can be from a proxy, after the API has processed the request. If
     * the caller chose the idempotency key, this request can be the repetition of an earlier one.
     *
     * @param Call<mixed> $call
     */
    private static function mayHaveTakenEffect(Call $call, Answer|Failure $outcome): bool
    {
        if ($call->method === 'GET') {
            return false;
        }
        if ($outcome instanceof Failure || $outcome->status >= 500) {
            return true;
        }
        $code = $outcome->errorCode();
        return $code === null || ($call->has_own_key && in_array($code, self::EARLY_CODES, true));
    }

    /** @param Call<mixed> $call */
    private function attempt(Call $call): Answer|Failure
    {
        // Each attempt gets a new signature, because signatures expire.
        $signed = $this->credentials->headers(time(), $call->method, $call->target, $call->body);
        $headers = $call->headers() + ['User-Agent' => $this->user_agent] + $signed;
        $url = $this->origin . $call->target;
        return $this->transport->send($call->method, $url, $headers, $call->body, $this->timeout_seconds);
    }

    private function waitSeconds(Answer|Failure $outcome, int $attempts): ?float
    {
        if ($outcome instanceof Failure) {
            return $outcome->is_final ? null : $this->retries->waitSeconds($attempts);
        }
        $is_retried = in_array($outcome->status, Retries::STATUSES, true);
        return $is_retried ? $this->retries->waitSeconds($attempts, $outcome->retryAfterSeconds()) : null;
    }

    private static function sleep(float $seconds): void
    {
        usleep((int) ($seconds * 1_000_000));
    }
}
