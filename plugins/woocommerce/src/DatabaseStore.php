<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use ManillaForWooCommerce\Core\Attempt;
use ManillaForWooCommerce\Core\AttemptState;
use ManillaForWooCommerce\Core\RefundState;
use ManillaForWooCommerce\Core\ShopRefund;

/**
 * Attempts and refunds in tables of their own, which work with both kinds of order storage.
 *
 * Reads end with FOR UPDATE: in a transaction of another plugin, a plain read would not see what other
 * processes have committed since the transaction began.
 */
final class DatabaseStore implements Core\Store
{
    private const TABLES_VERSION = '1';
    private const VERSION_OPTION = 'manilla_tables_version';
    private const SINCE_OPTION = 'manilla_refunds_read_since';

    public static function createTables(): void
    {
        global $wpdb;
        require_once ABSPATH . 'wp-admin/includes/upgrade.php';
        foreach (['attempts', 'refunds'] as $name) {
            dbDelta("CREATE TABLE {$wpdb->prefix}manilla_$name (
                id bigint(20) unsigned NOT NULL AUTO_INCREMENT,
                ref varchar(64) NOT NULL,
                order_id bigint(20) unsigned NOT NULL,
                environment varchar(20) NOT NULL,
                trx_id varchar(64) DEFAULT NULL,
                next_check_at bigint(20) DEFAULT NULL,
                content longtext NOT NULL,
                PRIMARY KEY  (id),
                UNIQUE KEY ref (ref),
                UNIQUE KEY trx_id (trx_id),
                KEY order_id (order_id),
                KEY next_check_at (next_check_at)
            ) ENGINE=InnoDB {$wpdb->get_charset_collate()};");
        }
        add_option(self::SINCE_OPTION, (string) time(), '', false);
        update_option(self::VERSION_OPTION, self::TABLES_VERSION);
    }

    public static function createMissingTables(): void
    {
        if (get_option(self::VERSION_OPTION) !== self::TABLES_VERSION) {
            self::createTables();
        }
    }

    public function attempts(int $order_id): array
    {
        return array_map($this->toAttempt(...), $this->rows('attempts', 'order_id = %d', $order_id));
    }

    public function attempt(string $ref): ?Attempt
    {
        return array_map($this->toAttempt(...), $this->rows('attempts', 'ref = %s', $ref))[0] ?? null;
    }

    public function attemptByTrx(string $trx_id): ?Attempt
    {
        return array_map($this->toAttempt(...), $this->rows('attempts', 'trx_id = %s', $trx_id))[0] ?? null;
    }

    public function saveAttempt(Attempt $attempt): void
    {
        $this->save('attempts', $attempt);
    }

    public function dueAttempts(string $environment, int $now, int $limit): array
    {
        return array_map($this->toAttempt(...), $this->due('attempts', $environment, $now, $limit));
    }

    public function refunds(int $order_id): array
    {
        return array_map($this->toRefund(...), $this->rows('refunds', 'order_id = %d', $order_id));
    }

    public function refund(string $ref): ?ShopRefund
    {
        return array_map($this->toRefund(...), $this->rows('refunds', 'ref = %s', $ref))[0] ?? null;
    }

    public function refundByTrx(string $trx_id): ?ShopRefund
    {
        return array_map($this->toRefund(...), $this->rows('refunds', 'trx_id = %s', $trx_id))[0] ?? null;
    }

    public function saveRefund(ShopRefund $refund): void
    {
        $this->save('refunds', $refund);
    }

    public function dueRefunds(string $environment, int $now, int $limit): array
    {
        return array_map($this->toRefund(...), $this->due('refunds', $environment, $now, $limit));
    }

    public function postpone(string $ref, int $until): void
    {
        foreach (['attempts', 'refunds'] as $table) {
            $this->write("UPDATE %i SET next_check_at = %d WHERE ref = %s", $this->table($table), $until, $ref);
        }
    }

    public function readRefundsSince(): int
    {
        return (int) get_option(self::SINCE_OPTION, (string) time());
    }

    public function saveReadRefundsSince(int $time): void
    {
        update_option(self::SINCE_OPTION, (string) $time, false);
    }

    private function table(string $name): string
    {
        global $wpdb;
        return "{$wpdb->prefix}manilla_$name";
    }

    /** @return list<string> the contents of the rows */
    private function rows(string $table, string $condition, int|string ...$values): array
    {
        global $wpdb;
        $sql = "SELECT content FROM %i WHERE $condition FOR UPDATE";
        // phpcs:ignore WordPress.DB.PreparedSQL.NotPrepared -- the conditions are constants of this class
        $found = $wpdb->get_col($wpdb->prepare($sql, $this->table($table), ...$values));
        if ($wpdb->last_error !== '') {
            throw new \RuntimeException("The table manilla_$table cannot be read."); // phpcs:ignore
        }
        return $found;
    }

    /** @return list<string> */
    private function due(string $table, string $environment, int $now, int $limit): array
    {
        global $wpdb;
        $sql = 'SELECT content FROM %i WHERE environment = %s AND next_check_at <= %d ORDER BY next_check_at LIMIT %d';
        return $wpdb->get_col($wpdb->prepare($sql, $this->table($table), $environment, $now, $limit));
    }

    private function save(string $table, Attempt|ShopRefund $row): void
    {
        // prepare() has no null, so empty strings become null in the statement.
        $this->write(
            "INSERT INTO %i (ref, order_id, environment, trx_id, next_check_at, content)
             VALUES (%s, %d, %s, NULLIF(%s, ''), NULLIF(%s, ''), %s)
             ON DUPLICATE KEY UPDATE trx_id = VALUES(trx_id), next_check_at = VALUES(next_check_at),
                content = VALUES(content)",
            $this->table($table),
            $row->ref,
            $row->order_id,
            $row->environment,
            $row->trx_id ?? '',
            (string) $row->next_check_at,
            (string) wp_json_encode($row),
        );
    }

    private function write(string $sql, int|string ...$values): void
    {
        global $wpdb;
        // phpcs:ignore WordPress.DB.PreparedSQL.NotPrepared -- the statements are constants of this class
        if ($wpdb->query($wpdb->prepare($sql, ...$values)) === false) {
            // Nothing may be sent that could not be stored.
            throw new \RuntimeException('The payment cannot be stored.');
        }
    }

    private function toAttempt(string $content): Attempt
    {
        $row = json_decode($content, true, flags: JSON_THROW_ON_ERROR);
        return new Attempt(...['state' => AttemptState::from($row['state'])] + $row);
    }

    private function toRefund(string $content): ShopRefund
    {
        $row = json_decode($content, true, flags: JSON_THROW_ON_ERROR);
        return new ShopRefund(...['state' => RefundState::from($row['state'])] + $row);
    }
}
