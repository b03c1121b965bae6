<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Manilla\ShopConnection;

/** What the shop's staff have entered. The constant MANILLA_SHOP_CONNECTION has precedence. */
final class Settings
{
    public const OPTION = 'woocommerce_manilla_settings';
    private const PREFIX = 'manilla_reference_prefix';

    public static function get(string $name, string $default = ''): string
    {
        $stored = get_option(self::OPTION, []);
        $value = is_array($stored) ? $stored[$name] ?? $default : $default;
        return is_string($value) ? $value : $default;
    }

    public static function connection(): ?ShopConnection
    {
        $text = defined('MANILLA_SHOP_CONNECTION') ? (string) MANILLA_SHOP_CONNECTION : self::get('connection');
        try {
            return $text === '' ? null : ShopConnection::read($text);
        } catch (\InvalidArgumentException) {
            return null;
        }
    }

    public static function usesDialog(): bool
    {
        return self::get('way', 'redirect') === 'dialog';
    }

    /** The start of every reference. It stays the same, so that references are never used twice. */
    public static function prefix(): string
    {
        $prefix = get_option(self::PREFIX, '');
        if (!is_string($prefix) || $prefix === '') {
            add_option(self::PREFIX, 'wc' . bin2hex(random_bytes(3)));
            $prefix = (string) get_option(self::PREFIX);
        }
        return $prefix;
    }

    public static function webhookUrl(): string
    {
        return WC()->api_request_url('manilla');
    }
}
