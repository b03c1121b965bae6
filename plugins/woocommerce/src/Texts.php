<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use ManillaForWooCommerce\Core\CannotPay;
use ManillaForWooCommerce\Core\CannotRefund;
use ManillaForWooCommerce\Core\Note;

/** The texts for customers and staff. */
final class Texts
{
    public static function note(Note $note, string ...$details): string
    {
        // phpcs:disable WordPress.WP.I18n.MissingTranslatorsComment -- Note lists what each %s is
        $text = match ($note) {
            Note::Paid => __('Manilla: payment %1$s of %2$s received.', 'manilla-for-woocommerce'),
            Note::PaidInSandbox => __('Manilla: TEST payment %1$s of %2$s. No money was received.', 'manilla-for-woocommerce'),
            Note::PaidAfterCancellation => __('Manilla: payment %1$s arrived after the order was cancelled. Check the stock before you ship, or refund it.', 'manilla-for-woocommerce'),
            Note::PaidTwice => __('Manilla: the customer has paid AGAIN, with payment %1$s of %2$s. The order was already paid or no longer exists. Choose the order action "Refund the extra payment".', 'manilla-for-woocommerce'),
            Note::TotalChanged => __('Manilla: payment %1$s of %2$s received, but the order\'s total is now %3$s. Review the order.', 'manilla-for-woocommerce'),
            Note::Failed => __('Manilla: the payment failed (%1$s). The customer can pay again.', 'manilla-for-woocommerce'),
            Note::OtherAmountReceived => __('Manilla: for payment %1$s, the customer sent %2$s. The difference is refunded to the customer.', 'manilla-for-woocommerce'),
            Note::RefundStarted => __('Manilla: refund %1$s of %2$s is on its way.', 'manilla-for-woocommerce'),
            Note::RefundDone => __('Manilla: refund %1$s of %2$s was paid to the customer.', 'manilla-for-woocommerce'),
            Note::RefundFailed => __('Manilla: refund %1$s of %2$s FAILED. The money is in your wallet again.', 'manilla-for-woocommerce'),
            Note::RefundUnknown => __('Manilla: it is not known yet whether %1$s was refunded. This is checked automatically.', 'manilla-for-woocommerce'),
            Note::RefundNeverSent => __('Manilla: %1$s was not refunded. You can refund again.', 'manilla-for-woocommerce'),
            Note::RefundMadeInManilla => __('Manilla: refund %1$s of %2$s was made in Manilla.', 'manilla-for-woocommerce'),
            Note::ExtraRefunded => __('Manilla: refund %1$s of %2$s returns a payment that did not pay this order.', 'manilla-for-woocommerce'),
            Note::CreditReturned => __('Manilla: refund %1$s of %2$s returns a surplus, which was never part of this order.', 'manilla-for-woocommerce'),
        };
        // phpcs:enable
        return vsprintf($text, $details);
    }

    public static function payProblem(string $problem): string
    {
        return match ($problem) {
            CannotPay::UNKNOWN => __('The payment could not be started. You have not paid. Please try again.', 'manilla-for-woocommerce'),
            CannotPay::MONEY_ON_ITS_WAY => __('Your earlier payment for this order is on its way. We will confirm the order as soon as it arrives.', 'manilla-for-woocommerce'),
            CannotPay::ALREADY_PAID => __('This order is already paid.', 'manilla-for-woocommerce'),
            CannotPay::NOT_PAYABLE => __('This order cannot be paid.', 'manilla-for-woocommerce'),
            default => __('This order cannot be paid with Manilla. Please choose another payment method.', 'manilla-for-woocommerce'),
        };
    }

    public static function refundProblem(CannotRefund $error): string
    {
        return match ($error->problem) {
            CannotRefund::UNKNOWN => __('Manilla has not answered, so it is not known whether the refund was made. It is checked automatically: see the order\'s notes in a few minutes.', 'manilla-for-woocommerce'),
            CannotRefund::CHANGED => __('Another refund was made meanwhile. Reload the page, check it, and try again after a minute if you need another refund.', 'manilla-for-woocommerce'),
            CannotRefund::NO_PAYMENT => __('This order was not paid with Manilla in this environment.', 'manilla-for-woocommerce'),
            default => $error->getMessage(),
        };
    }
}
