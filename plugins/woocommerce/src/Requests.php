<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Manilla\Errors\BadNotification;
use ManillaForWooCommerce\Core\CannotPay;

/** The URLs that Manilla and the customer's browser call. None of them trusts its input. */
final class Requests
{
    private const BODY_BYTES_MAX = 1_000_000;

    /** An event. Manilla repeats it if this does not answer with 2xx, so the work is done first. */
    public static function webhook(): void
    {
        $connection = Settings::connection();
        $body = (string) file_get_contents('php://input', length: self::BODY_BYTES_MAX);
        if ($connection === null || !isset($_SERVER['HTTP_WEBHOOK_SIGNATURE'])) {
            self::answer($connection === null ? 503 : 204); // An IPN. The endpoint gets the same as an event.
        }
        try {
            $shop = Plugin::shop();
            $work = $shop->receive($body, $_SERVER, $connection->webhookSecret());
            if ($work !== null) {
                $shop->work(...$work);
            }
        } catch (BadNotification $error) {
            Plugin::logError($error);
            self::answer(401);
        } catch (\Throwable $error) {
            Plugin::logError($error);
            self::answer(503);
        }
        self::answer(204);
    }

    /** The customer comes back from checkout. */
    public static function returned(): void
    {
        $order = self::ownOrder();
        if ($order === null) {
            wp_safe_redirect(wc_get_page_permalink('shop'));
            exit;
        }
        self::settle($order->get_id());
        $order = wc_get_order($order->get_id());
        $can_pay_again = $order->has_status('failed');
        $url = $can_pay_again ? $order->get_checkout_payment_url() : $order->get_checkout_order_received_url();
        wp_safe_redirect($url);
        exit;
    }

    /** The order-received page, while the payment is pending. */
    public static function waiting(int $order_id): void
    {
        $order = wc_get_order($order_id);
        if (!$order instanceof \WC_Order || !$order->has_status('pending')) {
            return;
        }
        self::settle($order_id);
        $order = wc_get_order($order_id);
        if ($order->has_status('pending')) {
            self::script('waiting');
            echo '<p class="manilla-waiting">';
            esc_html_e('We are waiting for your bank to confirm the payment. You can close this page.', 'manilla-for-woocommerce');
            echo ' <a href="' . esc_url($order->get_checkout_order_received_url()) . '">';
            esc_html_e('Check again', 'manilla-for-woocommerce');
            echo '</a></p>';
        }
    }

    /** The page that opens checkout in a dialog. Without scripts, its link leads to checkout. */
    public static function dialog(int $order_id): void
    {
        $order = wc_get_order($order_id);
        try {
            $payment_url = Plugin::shop()->payments->start($order_id, self::returnUrl($order), self::cancelUrl($order));
        } catch (\Throwable $error) {
            Plugin::logError($error);
            $problem = $error instanceof CannotPay ? $error->problem : CannotPay::UNKNOWN;
            echo '<p>' . esc_html(Texts::payProblem($problem)) . '</p>';
            return;
        }
        $platform = (string) Settings::connection()?->url;
        wp_enqueue_script('manilla-checkout', $platform . '/embed/1.0.1/checkout.js', [], null, true); // phpcs:ignore
        self::script('dialog', ['manilla-checkout']);
        printf(
            '<p><a class="button alt" id="manilla-pay" href="%s" data-return="%s">%s</a></p>',
            esc_url($payment_url),
            esc_url(self::returnUrl($order)),
            esc_html__('Pay now', 'manilla-for-woocommerce'),
        );
    }

    public static function returnUrl(\WC_Order $order): string
    {
        $query = ['order' => $order->get_id(), 'key' => $order->get_order_key()];
        return add_query_arg($query, WC()->api_request_url('manilla_return'));
    }

    public static function cancelUrl(\WC_Order $order): string
    {
        return $order->get_checkout_payment_url();
    }

    private static function settle(int $order_id): void
    {
        try {
            Plugin::shop()->payments->settleOrder($order_id);
        } catch (\Throwable $error) {
            Plugin::logError($error); // The customer sees that the order is pending. The reconciler continues.
        }
    }

    private static function ownOrder(): ?\WC_Order
    {
        // The order's key proves that this customer may see the order. Nothing else in the URL is used.
        // phpcs:disable WordPress.Security.NonceVerification.Recommended
        $order = wc_get_order(absint($_GET['order'] ?? 0));
        $key = sanitize_text_field(wp_unslash((string) ($_GET['key'] ?? '')));
        // phpcs:enable
        $is_own = $order instanceof \WC_Order && hash_equals($order->get_order_key(), $key);
        return $is_own && $key !== '' ? $order : null;
    }

    /** @param list<string> $needs */
    private static function script(string $name, array $needs = []): void
    {
        $url = plugins_url("assets/$name.js", MANILLA_WC_FILE);
        wp_enqueue_script("manilla-$name", $url, $needs, MANILLA_WC_VERSION, true);
    }

    private static function answer(int $status): never
    {
        nocache_headers();
        status_header($status);
        exit;
    }
}
