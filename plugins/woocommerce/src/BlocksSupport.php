<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Automattic\WooCommerce\Blocks\Payments\Integrations\AbstractPaymentMethodType;

/** The payment method in the checkout block. */
final class BlocksSupport extends AbstractPaymentMethodType
{
    protected $name = 'manilla';

    public function initialize(): void
    {
    }

    public function is_active(): bool
    {
        return $this->gateway()?->is_available() ?? false;
    }

    /** @return list<string> */
    public function get_payment_method_script_handles(): array
    {
        $url = plugins_url('assets/blocks.js', MANILLA_WC_FILE);
        $needs = ['wc-blocks-registry', 'wc-settings', 'wp-element', 'wp-html-entities'];
        wp_register_script('manilla-blocks', $url, $needs, MANILLA_WC_VERSION, true);
        return ['manilla-blocks'];
    }

    /** @return array<string, mixed> */
    public function get_payment_method_data(): array
    {
        $gateway = $this->gateway();
        return [
            'title' => $gateway?->get_title() ?? '',
            'description' => $gateway?->get_description() ?? '',
            'supports' => $gateway?->supports ?? [],
        ];
    }

    private function gateway(): ?Gateway
    {
        $found = WC()->payment_gateways()->payment_gateways()['manilla'] ?? null;
        return $found instanceof Gateway ? $found : null;
    }
}
