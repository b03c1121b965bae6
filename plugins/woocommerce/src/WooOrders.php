<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Automattic\WooCommerce\Caches\OrderCache;
use ManillaForWooCommerce\Core\Note;
use ManillaForWooCommerce\Core\Order;

/** WooCommerce's orders. Each read starts with empty caches, because other processes change orders too. */
final class WooOrders implements Core\Orders
{
    private const REFUND_META = '_manilla_refund';

    public function read(int $order_id): ?Order
    {
        $order = self::fresh($order_id);
        if ($order === null || $order->has_status('trash')) {
            return null;
        }
        $name = trim($order->get_billing_first_name() . ' ' . $order->get_billing_last_name());
        /* translators: 1: order number, 2: shop's name */
        $text = __('Order %1$s at %2$s', 'manilla-for-woocommerce');
        $shop = wp_specialchars_decode((string) get_bloginfo('name'), ENT_QUOTES);
        return new Order(
            $order_id,
            (string) $order->get_total('edit'),
            $order->get_currency(),
            $order->is_paid() || $order->get_date_paid() !== null || $order->has_status('refunded'),
            $order->needs_payment(),
            $order->has_status('cancelled'),
            (string) $order->get_transaction_id(),
            mb_substr(sprintf($text, $order->get_order_number(), $shop), 0, 200),
            $name,
            is_email($order->get_billing_email()) ? $order->get_billing_email() : '',
        );
    }

    public function complete(int $order_id, string $trx_id): void
    {
        $order = self::existing($order_id);
        $order->set_payment_method('manilla'); // The customer can have chosen another method since.
        $order->payment_complete($trx_id);
        $after = $this->read($order_id);
        if ($after === null || !$after->is_paid || $after->transaction_id !== $trx_id) {
            throw new \RuntimeException("The order $order_id could not be completed."); // phpcs:ignore
        }
    }

    public function holdForReview(int $order_id, string $trx_id): void
    {
        $order = self::existing($order_id);
        $order->set_transaction_id($trx_id);
        $order->set_date_paid(time());
        $order->set_status('on-hold');
        $order->save();
    }

    public function fail(int $order_id): void
    {
        self::existing($order_id)->update_status('failed');
    }

    public function note(int $order_id, Note $note, string ...$details): void
    {
        $text = Texts::note($note, ...$details);
        Plugin::log("order $order_id: $text", $note === Note::PaidTwice ? 'warning' : 'info');
        self::fresh($order_id)?->add_order_note(esc_html($text));
    }

    public function recordRefund(int $order_id, string $amount, string $reason, string $refund_trx_id): int
    {
        foreach (self::existing($order_id)->get_refunds() as $refund) {
            if ($refund->get_meta(self::REFUND_META) === $refund_trx_id) {
                return $refund->get_id();
            }
        }
        // The id is stored together with the refund, so that a crash cannot separate them.
        $mark = static fn (\WC_Order_Refund $refund) => $refund->update_meta_data(self::REFUND_META, $refund_trx_id);
        add_action('woocommerce_create_refund', $mark);
        try {
            $refund = wc_create_refund([
                'order_id' => $order_id,
                'amount' => $amount,
                'reason' => $reason,
                'refund_payment' => false,
            ]);
        } finally {
            remove_action('woocommerce_create_refund', $mark);
        }
        if (is_wp_error($refund)) {
            throw new \RuntimeException($refund->get_error_message()); // phpcs:ignore
        }
        return $refund->get_id();
    }

    public function hasRefund(int $order_id, int $shop_refund_id): bool
    {
        self::forget($shop_refund_id);
        return wc_get_order($shop_refund_id) instanceof \WC_Order_Refund;
    }

    public function removeRefund(int $order_id, int $shop_refund_id): void
    {
        $refund = wc_get_order($shop_refund_id);
        if (!$refund instanceof \WC_Order_Refund) {
            return;
        }
        $refund->delete(true);
        do_action('woocommerce_refund_deleted', $shop_refund_id, $order_id);
        $order = self::existing($order_id);
        if ($order->has_status('refunded')) {
            $order->update_status('on-hold');
        }
    }

    private static function existing(int $order_id): \WC_Order
    {
        $missing = "The order $order_id does not exist.";
        return self::fresh($order_id) ?? throw new \RuntimeException($missing); // phpcs:ignore
    }

    private static function fresh(int $order_id): ?\WC_Order
    {
        self::forget($order_id);
        $order = wc_get_order($order_id);
        return $order instanceof \WC_Order ? $order : null;
    }

    private static function forget(int $order_id): void
    {
        clean_post_cache($order_id);
        wp_cache_delete(\WC_Cache_Helper::get_cache_prefix('orders') . 'refund_ids' . $order_id, 'orders');
        wc_get_container()->get(OrderCache::class)->remove($order_id);
        $store = \WC_Data_Store::load('order');
        if (is_a($store->get_current_class_name(), Plugin::ORDERS_TABLE_STORE, true)) {
            $store->clear_cached_data([$order_id]);
        }
    }
}
