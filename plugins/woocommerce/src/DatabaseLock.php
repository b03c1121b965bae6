<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

/** A lock of MySQL or MariaDB. The database releases it if the process ends. */
final class DatabaseLock implements Core\Lock
{
    private const WAIT_SECONDS = 20;

    public function hold(int $order_id, callable $work): mixed
    {
        global $wpdb;
        // Other sites can use the same server. A name has at most 64 characters.
        $name = 'manilla-' . md5(DB_NAME . $wpdb->prefix) . "-$order_id";
        // SQLite answers with something else, because it has no such locks.
        if ($wpdb->get_var($wpdb->prepare('SELECT GET_LOCK(%s, %d)', $name, self::WAIT_SECONDS)) !== '1') {
            throw new Core\Busy("The order $order_id is locked.");
        }
        try {
            return $work();
        } finally {
            $wpdb->query($wpdb->prepare('SELECT RELEASE_LOCK(%s)', $name));
        }
    }
}
