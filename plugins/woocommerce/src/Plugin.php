<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Automattic\WooCommerce\Utilities\FeaturesUtil;
use Manilla\Client;
use Manilla\Models\MerchantAccount;
use Manilla\Retries;
use ManillaForWooCommerce\Core\Config;
use ManillaForWooCommerce\Core\Shop;

/** Connects the plugin to WordPress. */
final class Plugin
{
    public const ORDERS_TABLE_STORE = 'Automattic\WooCommerce\Internal\DataStores\Orders\OrdersTableDataStore';
    private const RECONCILE = 'manilla_reconcile';
    private const CANCEL = 'manilla_cancel_order';
    private const RECONCILE_SECONDS = 600;
    // A customer waits for these requests.
    private const ATTEMPTS_MAX = 2;
    private const TIMEOUT_SECONDS = 10;

    public static function declareCompatibility(): void
    {
        foreach (['custom_order_tables', 'cart_checkout_blocks'] as $feature) {
            FeaturesUtil::declare_compatibility($feature, MANILLA_WC_FILE, true);
        }
    }

    public static function start(): void
    {
        if (!class_exists('WC_Payment_Gateway')) {
            return;
        }
        add_filter('woocommerce_payment_gateways', static fn (array $all): array => [...$all, Gateway::class]);
        add_action('woocommerce_blocks_payment_method_type_registration', static function ($registry): void {
            $registry->register(new BlocksSupport());
        });
        add_action('woocommerce_api_manilla', [Requests::class, 'webhook']);
        add_action('woocommerce_api_manilla_return', [Requests::class, 'returned']);
        add_action('woocommerce_thankyou_manilla', [Requests::class, 'waiting']);
        add_action('woocommerce_receipt_manilla', [Requests::class, 'dialog']);
        add_filter('woocommerce_cancel_unpaid_order', [self::class, 'mayCancel'], 20, 2);
        add_action('woocommerce_order_status_cancelled', [self::class, 'cancelLater']);
        add_action(self::CANCEL, [self::class, 'cancel']);
        add_action(self::RECONCILE, [self::class, 'reconcile']);
        add_action('init', [self::class, 'schedule']);
        add_filter('woocommerce_order_actions', [StaffActions::class, 'offer'], 10, 2);
        add_action('woocommerce_order_action_manilla_check', [StaffActions::class, 'check']);
        add_action('woocommerce_order_action_manilla_refund_extra', [StaffActions::class, 'refundExtra']);
        add_action('admin_notices', [StaffActions::class, 'warn']);
    }

    public static function client(): Client
    {
        $connection = Settings::connection() ?? throw new \RuntimeException('The shop is not connected to Manilla.');
        return new Client(
            $connection->url,
            $connection->credentials,
            new Retries(self::ATTEMPTS_MAX, wait_seconds_max: 5),
            self::TIMEOUT_SECONDS,
            transport: new HttpTransport(),
            user_agent: 'manilla-woocommerce/' . MANILLA_WC_VERSION . ' WooCommerce/' . WC()->version,
        );
    }

    public static function shop(): Shop
    {
        $client = self::client();
        $environment = Settings::connection()?->credentials->environment() ?? '';
        return new Shop(
            $client,
            new WooOrders(),
            new DatabaseStore(),
            new DatabaseLock(),
            new SystemClock(),
            new Config($environment, Settings::prefix(), Settings::webhookUrl()),
            self::logError(...),
        );
    }

    /** Returns what Manilla says about the account, at most an hour old, or null if it does not answer. */
    public static function account(bool $reload = false): ?MerchantAccount
    {
        $connection = Settings::connection();
        if ($connection === null) {
            return null;
        }
        $key = 'manilla_account';
        $stored = get_transient($key);
        $id = md5($connection->url . $connection->credentials->merchant_key);
        if (!$reload && is_array($stored) && ($stored['id'] ?? null) === $id) {
            return $stored['account'] instanceof MerchantAccount ? $stored['account'] : null;
        }
        try {
            $account = self::client()->account();
        } catch (\Throwable $error) {
            self::logError($error);
            $account = null;
        }
        set_transient($key, ['id' => $id, 'account' => $account], $account === null ? 60 : HOUR_IN_SECONDS);
        return $account;
    }

    public static function schedule(): void
    {
        $runs_jobs = is_admin() || wp_doing_cron() || (defined('WP_CLI') && WP_CLI);
        if (!$runs_jobs || Settings::connection() === null) {
            return;
        }
        DatabaseStore::createMissingTables();
        if (!as_has_scheduled_action(self::RECONCILE, [], 'manilla')) {
            as_schedule_recurring_action(time(), self::RECONCILE_SECONDS, self::RECONCILE, [], 'manilla', true);
        }
    }

    public static function reconcile(): void
    {
        if (Settings::connection() !== null) {
            self::shop()->reconcile();
            update_option('manilla_reconciled_at', (string) time(), false);
        }
    }

    /** Keeps an order that WooCommerce would cancel, while it is paid or its customer can still pay. */
    public static function mayCancel(bool $cancels, \WC_Order $order): bool
    {
        if (!$cancels || Settings::connection() === null) {
            return $cancels;
        }
        $has_attempts = (new DatabaseStore())->attempts($order->get_id()) !== [];
        return !$has_attempts || self::shop()->payments->mayCancelUnpaid($order->get_id());
    }

    public static function cancelLater(int $order_id): void
    {
        if (Settings::connection() !== null && (new DatabaseStore())->attempts($order_id) !== []) {
            as_enqueue_async_action(self::CANCEL, [$order_id], 'manilla', true);
        }
    }

    public static function cancel(int $order_id): void
    {
        self::shop()->payments->cancelOrder($order_id);
    }

    public static function logError(\Throwable $error): void
    {
        self::log(get_class($error) . ': ' . $error->getMessage(), 'error');
    }

    public static function log(string $text, string $level = 'info'): void
    {
        wc_get_logger()->log($level, $text, ['source' => 'manilla']);
    }
}
