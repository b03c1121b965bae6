<?php

declare(strict_types=1);

use Manilla\Amount;
use Manilla\Answer;
use Manilla\Client;
use Manilla\Credentials;
use Manilla\Errors\ApiError;
use Manilla\Errors\BadNotification;
use Manilla\Notification;
use Manilla\Notifications;
use Manilla\Retries;
use Manilla\ShopConnection;

/** Translates the contract's cases into calls of the client, and compares their outcomes. */
final class Runner
{
    private const RECEIVE_SECONDS = 60;
    // maps the contract's names to the client's names, where they differ
    private const NAMES = ['code' => 'error_code'];

    /** @var list<string> */
    private array $failures = [];
    private int $passed = 0;
    /** @var array<string, mixed> the values that earlier steps of a live case saved */
    private array $saved = [];

    public function __construct(private readonly string $folder, private readonly string $url)
    {
    }

    public function signatures(): void
    {
        foreach ($this->cases('signatures.json') as $case) {
            $this->check('signature: ' . $case['name'], ['returns' => $case['signature']], fn () => Credentials::sign(
                $case['secret'],
                (int) $case['timestamp'],
                $case['method'],
                $case['path'],
                $case['body'],
            ));
        }
    }

    public function notifications(): void
    {
        foreach ($this->cases('notifications.json') as $case) {
            $verify = self::verifier($case['function']);
            $this->check('notification: ' . $case['name'], $case, fn () => $verify(
                $case['body'],
                $case['headers'],
                $case['secret'],
                $case['tolerance_seconds'],
            ));
        }
    }

    public function amounts(): void
    {
        $amounts = $this->cases('amounts.json');
        foreach ($amounts['minor'] as $case) {
            $returns = ['returns' => (int) $case['minor']];
            $call = fn () => Amount::toMinor($case['amount'], $case['decimals']);
            $this->check("amount in minor units: {$case['amount']}", $returns, $call);
        }
        foreach ($amounts['formatted'] as $case) {
            $returns = ['returns' => $case['amount']];
            $call = fn () => Amount::fromMinor((int) $case['minor'], $case['decimals']);
            $this->check("amount of minor units: {$case['minor']}", $returns, $call);
        }
        foreach ($amounts['rejected'] as $case) {
            $error = ['error' => ['class' => '$argument']];
            $call = fn () => Amount::toMinor($case['amount'], $case['decimals']);
            $this->check("rejected amount: {$case['amount']}", $error, $call);
        }
    }

    public function connections(): void
    {
        foreach ($this->cases('connections.json') as $case) {
            $outcome = isset($case['returns']) ? $case : ['error' => ['class' => '$argument']];
            $this->check("connection {$case['name']}", $outcome, static function () use ($case): array {
                $found = ShopConnection::read($case['text']);
                return [
                    'url' => $found->url,
                    'environment' => $found->credentials->environment(),
                    'merchant_key' => $found->credentials->merchant_key,
                    'webhook_endpoint' => $found->webhook_endpoint,
                    'webhook_secret' => $found->webhookSecret(),
                ];
            });
        }
    }

    public function waits(): void
    {
        foreach ($this->cases('waits.json') as $number => $case) {
            $waits = [];
            for ($times = 0; $times < 200; $times++) {
                $waits[] = (new Retries(...$case['retries']))
                    ->waitSeconds($case['attempts'], $case['retry_after_seconds']);
            }
            [$least, $most] = $case['wait_seconds'] ?? [null, null];
            $is_fine = $least === null
                ? array_filter($waits, is_float(...)) === []
                : min($waits) >= $least && max($waits) <= $most && count(array_unique($waits)) > 1;
            $this->note("wait $number", $is_fine ? [] : ['the waits are ' . min($waits) . ' to ' . max($waits)]);
        }
    }

    public function errors(): void
    {
        $errors = $this->cases('errors.json');
        foreach ($errors['classes'] as $each) {
            $class = self::errorClass($each['class']);
            $parent = get_parent_class($class) ?: '';
            $expected = $each['parent'] === null ? RuntimeException::class : self::errorClass($each['parent']);
            $this->note("error class $class", $parent === $expected ? [] : ["its parent is $parent"]);
            foreach ($each['codes'] ?? [] as $code) {
                $found = ApiError::of(new Answer(422, [], (string) json_encode(['error_code' => $code])));
                $this->note("error code $code", $found::class === $class ? [] : ['its class is ' . $found::class]);
            }
        }
        foreach ($errors['by_status'] as $status => $class) {
            $found = ApiError::of(new Answer((int) $status, [], ''))::class;
            $this->note("status $status", $found === self::errorClass($class) ? [] : ["its class is $found"]);
        }
    }

    public function scripted(): void
    {
        foreach ($this->get('/cases') as $case) {
            $credentials = new Credentials('test_' . $case['name'], 'test_api_key', 'test_api_secret');
            $client = new Client($this->url, $credentials, new Retries(...$case['retries']));
            $this->check($case['name'], $case, fn () => $this->call($client, $case));
        }
        $report = $this->get('/report');
        $this->note('the requests', [...$report['violations'], ...$report['missing']]);
    }

    public function live(): void
    {
        foreach ($this->cases('live.json') as $case) {
            $this->saved = [];
            $client = Client::fromEnvironment();
            foreach ($case['steps'] as $number => $step) {
                $name = $case['name'] . ', step ' . ($number + 1);
                if (isset($step['let'])) {
                    foreach ($step['let'] as $own => $value) {
                        $this->saved[$own] = $this->value($value);
                    }
                } elseif (isset($step['receive'])) {
                    $this->check($name, $step, fn () => $this->received($step));
                } else {
                    $used = isset($step['credentials']) ? $this->clientWith($step['credentials']) : $client;
                    $this->check($name, $step, fn () => $this->call($used, $step));
                }
            }
        }
    }

    /** Prints the failed cases, and returns whether there are none. */
    public function report(): bool
    {
        foreach ($this->failures as $failure) {
            echo $failure, "\n";
        }
        echo $this->passed, ' cases passed, ', count($this->failures), " failed\n";
        return $this->failures === [];
    }

    /** @param array<string, mixed> $case */
    private function call(Client $client, array $case): mixed
    {
        $method = self::camelCase($case['call']);
        $arguments = array_key_exists('id', $case) ? (array) $this->value($case['id']) : [];
        if (isset($case['order'])) {
            $order = array_map($this->value(...), $case['order']);
            $parameter = (new ReflectionMethod($client, $method))->getParameters()[count($arguments)];
            $is_array = (string) $parameter->getType() === 'array';
            $arguments = $is_array ? [...$arguments, $order] : [...$arguments, ...$order];
        }
        $options = array_map($this->value(...), $case['options'] ?? []);
        $result = $client->$method(...$arguments, ...$options);
        return $result instanceof Generator ? iterator_to_array($result) : $result;
    }

    /** @param array<string, mixed> $step */
    private function received(array $step): Notification
    {
        $verify = self::verifier($step['function']);
        $secret = $this->value($step['secret']);
        $deadline = time() + self::RECEIVE_SECONDS;
        while (time() < $deadline) {
            foreach ($this->get('/received' . $step['receive']) as $message) {
                try {
                    $notification = $verify($message['body'], $message['headers'], $secret);
                } catch (BadNotification) {
                    continue;
                }
                if ($notification->trx_id === $this->value($step['trx_id'])) {
                    return $notification;
                }
            }
            usleep(50_000);
        }
        throw new RuntimeException('No message about the transaction arrived.');
    }

    /** @param array<string, mixed> $case */
    private function check(string $name, array $case, callable $call): void
    {
        try {
            $result = $call();
        } catch (Throwable $error) {
            $this->note($name, isset($case['error'])
                ? $this->errorDifferences($case['error'], $error)
                : [$error::class . ': ' . $error->getMessage()]);
            return;
        }
        if (isset($case['error'])) {
            $this->note($name, ['no error was thrown']);
            return;
        }
        $differences = [];
        foreach (array_intersect_key($case, ['returns' => true, 'fields' => true]) as $key => $expected) {
            $differences = [...$differences, ...$this->differences($expected, $result, $key)];
        }
        $this->note($name, $differences);
        foreach ($case['save'] ?? [] as $own => $path) {
            $this->saved[$own] = array_reduce(explode('.', $path), self::part(...), $result);
        }
    }

    /** @param list<string> $differences */
    private function note(string $name, array $differences): void
    {
        if ($differences === []) {
            $this->passed++;
        } else {
            $this->failures[] = "FAILED $name: " . implode('; ', $differences);
        }
    }

    /**
     * @param array<string, mixed> $expected
     * @return list<string>
     */
    private function errorDifferences(array $expected, Throwable $error): array
    {
        if ($expected['class'] === '$argument') {
            $is_fine = $error instanceof InvalidArgumentException || $error instanceof TypeError;
            return $is_fine ? [] : [$error::class . ': ' . $error->getMessage()];
        }
        if ($error::class !== self::errorClass($expected['class'])) {
            return [$error::class . ': ' . $error->getMessage()];
        }
        $differences = [];
        foreach ($expected as $name => $value) {
            $differences[] = match ($name) {
                'class' => [],
                'parents' => array_filter($value, fn (string $each) => !is_a($error, self::errorClass($each))),
                'message' => $this->differences($value, $error->api_message, $name),
                'shown' => $this->differences($value, $error->getMessage(), $name),
                'error_names' => $this->differences($value, self::sorted(array_keys($error->errors)), $name),
                'errors' => $value == $error->errors ? [] : ['errors is ' . json_encode($error->errors)],
                default => $this->differences($value, self::part($error, $name), $name),
            };
        }
        return array_merge(...$differences);
    }

    /** @return list<string> */
    private function differences(mixed $expected, mixed $found, string $where): array
    {
        if (is_array($expected) && isset($expected['$time'])) {
            $is_fine = $found instanceof DateTimeImmutable && $found == new DateTimeImmutable($expected['$time']);
        } elseif (is_array($expected) && !self::isTagged($expected)) {
            return $this->partDifferences($expected, $found, $where);
        } else {
            $is_fine = $found === $this->value($expected);
        }
        $text = is_object($found) ? $found::class : var_export($found, true);
        return $is_fine ? [] : ["$where is $text, not " . json_encode($expected)];
    }

    /**
     * @param array<array-key, mixed> $expected
     * @return list<string>
     */
    private function partDifferences(array $expected, mixed $found, string $where): array
    {
        if (array_is_list($expected) && (!is_array($found) || count($found) !== count($expected))) {
            return ["$where is not a list of " . count($expected)];
        }
        $differences = [];
        foreach ($expected as $name => $value) {
            $differences = [...$differences, ...$this->differences($value, self::part($found, (string) $name), "$where.$name")];
        }
        return $differences;
    }

    /** Converts a value of the neutral form to a value for the client. */
    private function value(mixed $value): mixed
    {
        if (!is_array($value)) {
            return $value;
        }
        if (!self::isTagged($value)) {
            return array_map($this->value(...), $value);
        }
        $content = current($value);
        return match (key($value)) {
            '$amount' => $content,
            '$bytes' => $content,
            '$float' => (float) $content,
            '$time' => new DateTimeImmutable($content),
            '$saved' => $this->saved[$content],
            '$unique' => $content . bin2hex(random_bytes(8)),
            '$receiver' => $this->url . '/receive' . $content,
            '$api_secret' => getenv('MANILLA_API_SECRET'),
        };
    }

    /** @param array<array-key, mixed> $value */
    private static function isTagged(array $value): bool
    {
        return count($value) === 1 && str_starts_with((string) key($value), '$');
    }

    /** Returns a field of a result: a property, the result of a method, or an item of a list. */
    private static function part(mixed $whole, string $name): mixed
    {
        if (is_array($whole) && str_contains($name, '=')) {
            [$field, $value] = explode('=', $name);
            return current(array_filter($whole, fn (object $each) => $each->$field === $value));
        }
        if (is_array($whole)) {
            return $whole[$name] ?? throw new RuntimeException("There is no $name.");
        }
        $own = $whole instanceof Throwable ? self::NAMES[$name] ?? $name : $name;
        $method = self::camelCase($name);
        return method_exists($whole, $method) ? $whole->$method() : $whole->$own;
    }

    /** @param array<string, string> $changed */
    private function clientWith(array $changed): Client
    {
        $names = ['merchant_key', 'api_key', 'api_secret'];
        $given = array_map(fn (string $name) => $changed[$name] ?? getenv('MANILLA_' . strtoupper($name)), $names);
        return new Client((string) getenv('MANILLA_URL'), new Credentials(...$given));
    }

    private static function verifier(string $function): Closure
    {
        return Closure::fromCallable([Notifications::class, self::camelCase($function)]);
    }

    private static function errorClass(string $name): string
    {
        return "Manilla\\Errors\\$name";
    }

    private static function camelCase(string $name): string
    {
        return lcfirst(str_replace('_', '', ucwords($name, '_')));
    }

    /**
     * @param list<string> $names
     * @return list<string>
     */
    private static function sorted(array $names): array
    {
        sort($names);
        return $names;
    }

    private function cases(string $file): mixed
    {
        return json_decode((string) file_get_contents("$this->folder/$file"), true, 64, JSON_THROW_ON_ERROR);
    }

    private function get(string $path): mixed
    {
        $text = file_get_contents($this->url . $path);
        return json_decode((string) $text, true, 64, JSON_THROW_ON_ERROR);
    }
}
