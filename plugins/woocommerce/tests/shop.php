<?php

declare(strict_types=1);

namespace ManillaForWooCommerce\Tests;

// A small shop on SQLite that uses the plugin's core. PHP's web server runs it in several processes.
// `fault` in a request loses an answer or ends the process, at the n-th call or the n-th write.

use Manilla\{Answer, Client, CurlTransport, Failure, Retries, ShopConnection, Transport};
use ManillaForWooCommerce\Core\{Attempt, AttemptState, Busy, CannotPay, CannotRefund, Clock, Config, Lock, Note};
use ManillaForWooCommerce\Core\{Order, Orders, RefundState, Shop, ShopRefund, Store};

require __DIR__ . '/../autoload.php';
error_reporting(E_ALL);

const TABLES = <<<'SQL'
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total TEXT, status TEXT DEFAULT 'pending',
        trx_id TEXT DEFAULT '', completed INTEGER DEFAULT 0);
    CREATE TABLE IF NOT EXISTS shop_refund (id INTEGER PRIMARY KEY AUTOINCREMENT, order_id INTEGER, amount TEXT,
        trx_id TEXT);
    CREATE TABLE IF NOT EXISTS note (order_id INTEGER, note TEXT, details TEXT);
    CREATE TABLE IF NOT EXISTS attempt (ref TEXT PRIMARY KEY, order_id INTEGER, trx_id TEXT, next_check_at INTEGER,
        content TEXT);
    CREATE TABLE IF NOT EXISTS refund (ref TEXT PRIMARY KEY, order_id INTEGER, trx_id TEXT, next_check_at INTEGER,
        content TEXT);
    CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value INTEGER);
    SQL;

/** Ends the process, or loses answers, as the request says. */
final class Faults
{
    private int $calls = 0;
    private int $writes = 0;

    /** @param array<string, int> $at */
    public function __construct(private readonly array $at)
    {
    }

    public function call(callable $send): Answer|Failure
    {
        $this->calls++;
        if ($this->calls === ($this->at['unsent'] ?? 0)) {
            return new Failure('The request was lost.');
        }
        $answer = $send();
        if ($this->calls === ($this->at['lost'] ?? 0)) {
            return new Failure('The answer was lost.');
        }
        return $this->calls === ($this->at['die'] ?? 0) ? exit('died') : $answer;
    }

    public function wrote(): void
    {
        $this->writes++;
        if ($this->writes === ($this->at['die_after_write'] ?? 0)) {
            exit('died');
        }
    }
}

final class FaultyTransport implements Transport
{
    public function __construct(private readonly Faults $faults, private readonly Transport $real)
    {
    }

    public function send(string $method, string $url, array $headers, string $body, float $timeout_seconds): Answer|Failure
    {
        return $this->faults->call(fn () => $this->real->send($method, $url, $headers, $body, $timeout_seconds));
    }
}

final class Database implements Orders, Store, Lock, Clock
{
    private readonly \PDO $sql;

    public function __construct(private readonly string $folder, private readonly Faults $faults)
    {
        $this->sql = new \PDO("sqlite:$folder/shop.db");
        $this->sql->setAttribute(\PDO::ATTR_TIMEOUT, 30);
        $this->sql->exec(TABLES);
    }

    /** @return list<array<string, mixed>> */
    public function rows(string $sql, mixed ...$values): array
    {
        $query = $this->sql->prepare($sql);
        $query->execute($values);
        return $query->fetchAll(\PDO::FETCH_ASSOC);
    }

    public function write(string $sql, mixed ...$values): int
    {
        $query = $this->sql->prepare($sql);
        $query->execute($values);
        $id = (int) $this->sql->lastInsertId();
        $this->faults->wrote();
        return $id;
    }

    public function now(): int
    {
        return time() + (int) @file_get_contents("$this->folder/clock");
    }

    public function hold(int $order_id, callable $work): mixed
    {
        $file = fopen("$this->folder/lock-$order_id", 'c') ?: throw new Busy();
        flock($file, LOCK_EX);
        try {
            return $work();
        } finally {
            flock($file, LOCK_UN);
        }
    }

    public function read(int $order_id): ?Order
    {
        $row = $this->rows('SELECT * FROM orders WHERE id = ?', $order_id)[0] ?? null;
        if ($row === null) {
            return null;
        }
        $status = $row['status'];
        return new Order(
            $order_id,
            $row['total'],
            'NGN',
            in_array($status, ['processing', 'refunded'], true),
            in_array($status, ['pending', 'failed'], true),
            $status === 'cancelled',
            $row['trx_id'],
            "Order $order_id",
            'Ada',
            'ada@example.com',
        );
    }

    public function complete(int $order_id, string $trx_id): void
    {
        $sql = "UPDATE orders SET status = 'processing', trx_id = ?, completed = completed + 1 WHERE id = ?";
        $this->write($sql, $trx_id, $order_id);
    }

    public function holdForReview(int $order_id, string $trx_id): void
    {
        $this->write("UPDATE orders SET status = 'on-hold', trx_id = ? WHERE id = ?", $trx_id, $order_id);
    }

    public function fail(int $order_id): void
    {
        $this->write("UPDATE orders SET status = 'failed' WHERE id = ?", $order_id);
    }

    public function note(int $order_id, Note $note, string ...$details): void
    {
        $this->write('INSERT INTO note VALUES (?, ?, ?)', $order_id, $note->name, implode(' ', $details));
    }

    public function addRecord(int $order_id, string $amount): int
    {
        $this->sql->prepare('INSERT INTO shop_refund (order_id, amount) VALUES (?, ?)')->execute([$order_id, $amount]);
        return (int) $this->sql->lastInsertId();
    }

    public function recordRefund(int $order_id, string $amount, string $reason, string $refund_trx_id): int
    {
        $known = $this->rows('SELECT id FROM shop_refund WHERE trx_id = ?', $refund_trx_id)[0]['id'] ?? null;
        $sql = 'INSERT INTO shop_refund (order_id, amount, trx_id) VALUES (?, ?, ?)';
        return $known ?? $this->write($sql, $order_id, $amount, $refund_trx_id);
    }

    public function hasRefund(int $order_id, int $shop_refund_id): bool
    {
        return $this->rows('SELECT 1 FROM shop_refund WHERE id = ?', $shop_refund_id) !== [];
    }

    public function removeRefund(int $order_id, int $shop_refund_id): void
    {
        $this->write('DELETE FROM shop_refund WHERE id = ?', $shop_refund_id);
    }

    public function attempts(int $order_id): array
    {
        return array_map(self::toAttempt(...), $this->rows('SELECT * FROM attempt WHERE order_id = ? ORDER BY rowid', $order_id));
    }

    public function attempt(string $ref): ?Attempt
    {
        return array_map(self::toAttempt(...), $this->rows('SELECT * FROM attempt WHERE ref = ?', $ref))[0] ?? null;
    }

    public function attemptByTrx(string $trx_id): ?Attempt
    {
        return array_map(self::toAttempt(...), $this->rows('SELECT * FROM attempt WHERE trx_id = ?', $trx_id))[0] ?? null;
    }

    public function saveAttempt(Attempt $attempt): void
    {
        $this->save('attempt', $attempt);
    }

    public function dueAttempts(string $environment, int $now, int $limit): array
    {
        $sql = 'SELECT * FROM attempt WHERE next_check_at <= ? LIMIT ?';
        return array_map(self::toAttempt(...), $this->rows($sql, $now, $limit));
    }

    public function refunds(int $order_id): array
    {
        return array_map(self::toRefund(...), $this->rows('SELECT * FROM refund WHERE order_id = ? ORDER BY rowid', $order_id));
    }

    public function refund(string $ref): ?ShopRefund
    {
        return array_map(self::toRefund(...), $this->rows('SELECT * FROM refund WHERE ref = ?', $ref))[0] ?? null;
    }

    public function refundByTrx(string $trx_id): ?ShopRefund
    {
        return array_map(self::toRefund(...), $this->rows('SELECT * FROM refund WHERE trx_id = ?', $trx_id))[0] ?? null;
    }

    public function saveRefund(ShopRefund $refund): void
    {
        $this->save('refund', $refund);
    }

    public function dueRefunds(string $environment, int $now, int $limit): array
    {
        $sql = 'SELECT * FROM refund WHERE next_check_at <= ? LIMIT ?';
        return array_map(self::toRefund(...), $this->rows($sql, $now, $limit));
    }

    public function postpone(string $ref, int $until): void
    {
        $this->write('UPDATE attempt SET next_check_at = ? WHERE ref = ?', $until, $ref);
        $this->write('UPDATE refund SET next_check_at = ? WHERE ref = ?', $until, $ref);
    }

    public function readRefundsSince(): int
    {
        return $this->rows("SELECT value FROM setting WHERE name = 'since'")[0]['value'] ?? time() - 3600;
    }

    public function saveReadRefundsSince(int $time): void
    {
        $this->write("INSERT INTO setting VALUES ('since', ?) ON CONFLICT DO UPDATE SET value = excluded.value", min($time, time()));
    }

    private function save(string $table, Attempt|ShopRefund $row): void
    {
        $sql = "INSERT INTO $table VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET trx_id = excluded.trx_id,"
            . ' next_check_at = excluded.next_check_at, content = excluded.content';
        $this->write($sql, $row->ref, $row->order_id, $row->trx_id, $row->next_check_at, json_encode($row));
    }

    /** @param array<string, mixed> $row */
    private static function toAttempt(array $row): Attempt
    {
        $content = json_decode($row['content'], true);
        return new Attempt(...['state' => AttemptState::from($content['state'])] + $content);
    }

    /** @param array<string, mixed> $row */
    private static function toRefund(array $row): ShopRefund
    {
        $content = json_decode($row['content'], true);
        return new ShopRefund(...['state' => RefundState::from($content['state'])] + $content);
    }
}

/** @param array<string, mixed> $asked */
function answer(array $asked, Database $database, Shop $shop, string $secret): mixed
{
    $id = $asked['order'] ?? 0;
    switch ($asked['do']) {
        case 'create':
            return $database->write('INSERT INTO orders (id, total) VALUES (?, ?)', $id, $asked['total']);
        case 'change':
            return $database->write("UPDATE orders SET total = ? WHERE id = ? AND status = 'pending'", $asked['total'], $id);
        case 'pay':
            return $shop->payments->start($id, 'https://shop.example/thanks', 'https://shop.example/cart');
        case 'return':
            return $shop->payments->settleOrder($id);
        case 'cancel':
            $database->write("UPDATE orders SET status = 'cancelled' WHERE id = ? AND status IN ('pending', 'failed')", $id);
            return $shop->payments->cancelOrder($id);
        case 'may_cancel':
            return $shop->payments->mayCancelUnpaid($id);
        case 'event':
            $work = $shop->receive($asked['body'], $asked['headers'], $secret);
            return $work === null ? 'ignored' : $shop->work(...$work);
        case 'reconcile':
            return $shop->reconcile();
        case 'refund': // as WooCommerce: it checks what its page has shown, and removes its record on failure
            if (count($database->rows('SELECT 1 FROM shop_refund WHERE order_id = ?', $id)) !== ($asked['seen'] ?? 0)) {
                throw new CannotRefund(CannotRefund::CHANGED);
            }
            $record = $database->addRecord($id, $asked['amount']);
            try {
                return $shop->refunds->refund($id, $asked['amount'], $asked['reason'] ?? '', $record)->ref;
            } catch (\Throwable $error) {
                $database->removeRefund($id, $record);
                throw $error;
            }
        case 'refund_extra':
            return $shop->refunds->refundExtra($id, $asked['trx_id'])->ref;
        case 'show':
            return [
                'orders' => $database->rows('SELECT * FROM orders'),
                'notes' => $database->rows('SELECT * FROM note'),
                'records' => $database->rows('SELECT * FROM shop_refund'),
                'attempts' => array_map(fn ($row) => json_decode($row['content']), $database->rows('SELECT content FROM attempt')),
                'refunds' => array_map(fn ($row) => json_decode($row['content']), $database->rows('SELECT content FROM refund')),
            ];
    }
    throw new \InvalidArgumentException($asked['do']);
}

$asked = json_decode(file_get_contents('php://input'), true, flags: JSON_THROW_ON_ERROR);
$faults = new Faults($asked['fault'] ?? []);
$database = new Database((string) getenv('SHOP_FOLDER'), $faults);
$connection = ShopConnection::read((string) getenv('SHOP_CONNECTION'));
$transport = new FaultyTransport($faults, new CurlTransport());
$client = new Client($connection->url, $connection->credentials, new Retries(1), 30, transport: $transport);
$config = new Config('sandbox', 'shop', 'https://shop.example/hook', 'pending');
$log = static fn (\Throwable $error) => error_log(get_class($error) . ': ' . $error->getMessage());
$shop = new Shop($client, $database, $database, $database, $database, $config, $log(...));
try {
    echo json_encode(['ok' => answer($asked, $database, $shop, $connection->webhookSecret())]);
} catch (CannotPay | CannotRefund $error) {
    echo json_encode(['problem' => $error->problem]);
} catch (\Manilla\Errors\ManillaError $error) {
    echo json_encode(['error' => get_class($error) . ': ' . $error->getMessage()]);
}
