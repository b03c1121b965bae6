<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use ManillaForWooCommerce\Core\AttemptState;
use ManillaForWooCommerce\Core\CannotRefund;

/** The order page's actions. WooCommerce checks the nonce and the capability before it calls them. */
final class StaffActions
{
    /**
     * @param array<string, string> $actions
     * @return array<string, string>
     */
    public static function offer(array $actions, ?\WC_Order $order = null): array
    {
        $attempts = $order === null ? [] : (new DatabaseStore())->attempts($order->get_id());
        if ($attempts !== []) {
            $actions['manilla_check'] = __('Check the payment with Manilla', 'manilla-for-woocommerce');
        }
        if (array_filter($attempts, static fn ($attempt): bool => $attempt->state === AttemptState::Extra) !== []) {
            $actions['manilla_refund_extra'] = __('Refund the extra payment', 'manilla-for-woocommerce');
        }
        return $actions;
    }

    public static function check(\WC_Order $order): void
    {
        try {
            Plugin::shop()->payments->settleOrder($order->get_id());
        } catch (\Throwable $error) {
            Plugin::logError($error);
            /* translators: %s: error */
            $order->add_order_note(esc_html(sprintf(__('Manilla: %s', 'manilla-for-woocommerce'), $error->getMessage())));
        }
    }

    public static function refundExtra(\WC_Order $order): void
    {
        foreach ((new DatabaseStore())->attempts($order->get_id()) as $attempt) {
            if ($attempt->state !== AttemptState::Extra) {
                continue;
            }
            try {
                Plugin::shop()->refunds->refundExtra($order->get_id(), (string) $attempt->trx_id);
            } catch (CannotRefund $error) {
                $order->add_order_note(esc_html('Manilla: ' . Texts::refundProblem($error)));
            }
        }
    }

    /** Warns if paid orders could stay unpaid, because scheduled jobs do not run. */
    public static function warn(): void
    {
        if (Settings::connection() === null || !current_user_can('manage_woocommerce')) {
            return;
        }
        $ran_at = (int) get_option('manilla_reconciled_at', '0');
        if ($ran_at > 0 && $ran_at < time() - 2 * HOUR_IN_SECONDS) {
            echo '<div class="notice notice-error"><p>';
            esc_html_e('Manilla: scheduled actions have not run for two hours, so paid orders can stay unpaid. Check WP-Cron.', 'manilla-for-woocommerce');
            echo '</p></div>';
        }
    }
}
