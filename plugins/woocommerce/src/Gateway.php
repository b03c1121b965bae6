<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Manilla\ShopConnection;
use ManillaForWooCommerce\Core\CannotPay;
use ManillaForWooCommerce\Core\CannotRefund;

/** The payment method in WooCommerce. */
final class Gateway extends \WC_Payment_Gateway
{
    public function __construct()
    {
        $this->id = 'manilla';
        $this->method_title = 'Manilla';
        $this->method_description = __('Bank transfers, cards and mobile money, on Manilla\'s page or in a dialog.', 'manilla-for-woocommerce');
        $this->supports = ['products', 'refunds'];
        $this->has_fields = false;
        $this->init_form_fields();
        $this->init_settings();
        $this->title = $this->get_option('title');
        $this->description = $this->get_option('description');
        add_action('woocommerce_update_options_payment_gateways_manilla', [$this, 'process_admin_options']);
    }

    public function init_form_fields(): void
    {
        $this->form_fields = [
            'enabled' => [
                'title' => __('Enable', 'manilla-for-woocommerce'),
                'type' => 'checkbox',
                'label' => __('Take payments with Manilla', 'manilla-for-woocommerce'),
                'default' => 'no',
            ],
            'connection' => [
                'title' => __('Connection', 'manilla-for-woocommerce'),
                'type' => 'manilla_connection',
            ],
            'title' => [
                'title' => __('Title', 'manilla-for-woocommerce'),
                'type' => 'safe_text',
                'default' => __('Bank transfer, card or mobile money', 'manilla-for-woocommerce'),
            ],
            'description' => [
                'title' => __('Description', 'manilla-for-woocommerce'),
                'type' => 'textarea',
                'default' => '',
            ],
            'way' => [
                'title' => __('Checkout', 'manilla-for-woocommerce'),
                'type' => 'select',
                'default' => 'redirect',
                'options' => [
                    'redirect' => __('On Manilla\'s page', 'manilla-for-woocommerce'),
                    'dialog' => __('In a dialog', 'manilla-for-woocommerce'),
                ],
            ],
        ];
    }

    /** @param array<string, mixed> $data */
    public function generate_manilla_connection_html(string $key, array $data): string
    {
        $connection = Settings::connection();
        /* translators: 1: environment, 2: URL */
        $connected = __('Connected: %1$s at %2$s. Paste a new text to change it.', 'manilla-for-woocommerce');
        $shown = $connection === null
            ? __('Paste the text that starts with manilla_shop_1_', 'manilla-for-woocommerce')
            : sprintf($connected, $connection->credentials->environment(), $connection->url);
        $help = __('In Manilla\'s dashboard, choose Credentials, Connect a shop, and enter this webhook URL:', 'manilla-for-woocommerce');
        // The stored text is a password, so it is never shown.
        return sprintf(
            '<tr valign="top"><th scope="row"><label for="%1$s">%2$s</label></th><td class="forminp">'
                . '<input type="password" autocomplete="off" class="input-text regular-input" id="%1$s" name="%1$s" value=""'
                . ' placeholder="%3$s"><p class="description">%4$s<br><code>%5$s</code></p></td></tr>',
            esc_attr($this->get_field_key($key)),
            esc_html((string) $data['title']),
            esc_attr($shown),
            esc_html($help),
            esc_html(Settings::webhookUrl()),
        );
    }

    /** Returns the text to store. An empty field keeps the stored one. */
    public function validate_manilla_connection_field(string $key, ?string $value): string
    {
        $text = trim((string) $value);
        if ($text === '') {
            return $this->get_option($key);
        }
        ShopConnection::read($text); // WooCommerce shows the error and keeps the stored text.
        return $text;
    }

    public function process_admin_options(): bool
    {
        $is_saved = parent::process_admin_options();
        if (Settings::connection() !== null) {
            DatabaseStore::createMissingTables();
            $this->test();
        }
        return $is_saved;
    }

    public function is_available(): bool
    {
        if (!parent::is_available() || Settings::connection() === null) {
            return false;
        }
        $account = Plugin::account();
        if ($account === null) {
            return true; // Manilla does not answer now. It rejects what it cannot take.
        }
        foreach ($account->currencies as $currency) {
            if ($currency->code === get_woocommerce_currency()) {
                $total = (float) $this->get_order_total(); // only to hide the method
                return wc_get_price_decimals() <= $currency->decimals
                    && ($total === 0.0 || ($total >= (float) $currency->minimum && $total <= (float) $currency->maximum));
            }
        }
        return false;
    }

    public function needs_setup(): bool
    {
        return Settings::connection() === null;
    }

    public function is_account_connected(): bool
    {
        return Settings::connection() !== null;
    }

    public function is_test_mode(): bool
    {
        return Settings::connection()?->credentials->environment() === 'sandbox';
    }

    /** @return array{result: string, redirect: string} */
    public function process_payment($order_id): array
    {
        $order = wc_get_order($order_id);
        if (Settings::usesDialog()) {
            return ['result' => 'success', 'redirect' => $order->get_checkout_payment_url(true)];
        }
        try {
            $ways_back = [Requests::returnUrl($order), Requests::cancelUrl($order)];
            $url = Plugin::shop()->payments->start((int) $order_id, ...$ways_back);
            return ['result' => 'success', 'redirect' => $url];
        } catch (\Throwable $error) {
            Plugin::logError($error->getPrevious() ?? $error);
            $problem = $error instanceof CannotPay ? $error->problem : CannotPay::UNKNOWN;
            if ($problem === CannotPay::ALREADY_PAID) {
                return ['result' => 'success', 'redirect' => $order->get_checkout_order_received_url()];
            }
            throw new \Exception(esc_html(Texts::payProblem($problem)));
        }
    }

    /** Called by WooCommerce after it has created its record of the refund. */
    public function process_refund($order_id, $amount = null, $reason = ''): bool|\WP_Error
    {
        $order = wc_get_order($order_id);
        $given = wc_format_decimal((string) $amount, wc_get_price_decimals());
        $records = $order->get_refunds();
        $newest = $records === [] ? null : max(array_map(static fn ($record): int => $record->get_id(), $records));
        if ($newest === null || $amount === null) {
            return new \WP_Error('manilla', __('Refund the order on its page.', 'manilla-for-woocommerce'));
        }
        try {
            Plugin::shop()->refunds->refund((int) $order_id, $given, (string) $reason, $newest);
            return true;
        } catch (CannotRefund $error) {
            return new \WP_Error('manilla', Texts::refundProblem($error));
        } catch (\Throwable $error) {
            Plugin::logError($error);
            return new \WP_Error('manilla', __('The refund was not made. Try again later.', 'manilla-for-woocommerce'));
        }
    }

    public function get_transaction_url($order): string
    {
        $connection = Settings::connection();
        if ($connection !== null) {
            $environment = $connection->credentials->environment();
            $this->view_transaction_url = "$connection->url/dashboard/$environment/payments/%s";
        }
        return parent::get_transaction_url($order);
    }

    /** Shows whether the settings work, as messages on the settings page. */
    private function test(): void
    {
        $account = Plugin::account(reload: true);
        if ($account === null) {
            \WC_Admin_Settings::add_error(__('Manilla does not answer, or rejects the connection. See WooCommerce, Status, Logs.', 'manilla-for-woocommerce'));
            return;
        }
        $currencies = array_column($account->currencies, 'code');
        if (!in_array(get_woocommerce_currency(), $currencies, true)) {
            /* translators: 1: currency, 2: list of currencies */
            $text = __('Your Manilla account cannot take %1$s. It takes: %2$s.', 'manilla-for-woocommerce');
            \WC_Admin_Settings::add_error(sprintf($text, get_woocommerce_currency(), implode(', ', $currencies)));
        }
        $parts = wp_parse_url(home_url());
        $origin = $parts['scheme'] . '://' . $parts['host'] . (isset($parts['port']) ? ':' . $parts['port'] : '');
        if (Settings::usesDialog() && !in_array($origin, $account->checkout_origins, true)) {
            /* translators: %s: origin */
            $text = __('Allow the origin %s in Manilla\'s dashboard. Until then, customers leave the shop to pay.', 'manilla-for-woocommerce');
            \WC_Admin_Settings::add_error(sprintf($text, $origin));
        }
        $this->testWebhook();
    }

    private function testWebhook(): void
    {
        try {
            $test = Plugin::client()->testWebhookEndpoint((string) Settings::connection()?->webhook_endpoint);
            if ($test->status === 'failed') {
                /* translators: %s: error */
                $text = __('Manilla cannot reach the webhook URL (%s). Orders are still checked every ten minutes.', 'manilla-for-woocommerce');
                \WC_Admin_Settings::add_error(sprintf($text, $test->error ?? (string) $test->http_status));
            }
        } catch (\Throwable $error) {
            Plugin::logError($error);
        }
    }
}
