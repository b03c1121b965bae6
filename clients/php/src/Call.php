<?php

declare(strict_types=1);

namespace Manilla;

/**
 * One call of the API: a request, and the function that reads its response.
 *
 * @internal
 * @template T
 */
final class Call
{
    private const KEY_PATTERN = '/^[ -~]{1,255}$/D';

    /**
     * @param ?callable(Document): T $read null for a file
     * @param ?string $idempotency_key every attempt has the same key, so the request takes effect only once
     * @param ?string $file_type the media type of a response that is a file
     * @param bool $has_own_key whether the caller chose the idempotency key
     */
    private function __construct(
        public readonly string $method,
        public readonly string $target,
        private readonly mixed $read,
        public readonly string $body = '',
        public readonly ?string $idempotency_key = null,
        public readonly bool $has_own_key = false,
        public readonly ?string $scenario = null,
        private readonly string $content_type = 'application/json',
        private readonly ?string $file_type = null,
    ) {
    }

    /**
     * @template U
     * @param callable(Document): U $read
     * @param array<string, mixed> $query
     * @return self<U>
     */
    public static function get(string $path, callable $read, array $query = []): self
    {
        return new self('GET', $path . self::queryString($query), $read);
    }

    /** @return self<string> */
    public static function file(string $path, string $type): self
    {
        return new self('GET', $path, null, file_type: $type);
    }

    /**
     * @template U
     * @param callable(Document): U $read
     * @param array<string, mixed>|null $body
     * @return self<U>
     */
    public static function send(string $method, string $path, callable $read, ?array $body = null): self
    {
        return new self($method, $path, $read, self::encoded($body));
    }

    /**
     * Creates a call that is sent with an idempotency key.
     *
     * @template U
     * @param callable(Document): U $read
     * @param array<string, mixed>|null $body
     * @return self<U>
     */
    public static function post(
        string $path,
        callable $read,
        ?array $body,
        ?string $idempotency_key,
        ?string $scenario = null,
    ): self {
        $key = self::checkedKey($idempotency_key);
        if (!in_array($scenario, [null, 'success', 'failed', 'pending', 'disputed'], true)) {
            throw new \InvalidArgumentException('A scenario is success, failed, pending or disputed.');
        }
        return new self('POST', $path, $read, self::encoded($body), $key, $idempotency_key !== null, $scenario);
    }

    /**
     * Creates a call that sends a file as a form.
     *
     * @template U
     * @param callable(Document): U $read
     * @return self<U>
     */
    public static function upload(
        string $path,
        callable $read,
        string $name,
        string $content,
        ?string $idempotency_key,
    ): self {
        $key = self::checkedKey($idempotency_key);
        // The boundary depends only on the file, so that a repeated call has the same body.
        $boundary = hash('sha256', $content);
        $quoted = preg_replace('/[\r\n"\\\\]/', '_', $name);
        $body = "--$boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"$quoted\"\r\n"
            . "Content-Type: application/octet-stream\r\n\r\n$content\r\n--$boundary--\r\n";
        $type = "multipart/form-data; boundary=$boundary";
        return new self('POST', $path, $read, $body, $key, $idempotency_key !== null, null, $type);
    }

    private static function checkedKey(?string $given): string
    {
        $key = $given ?? bin2hex(random_bytes(16));
        if (preg_match(self::KEY_PATTERN, $key) !== 1) {
            throw new \InvalidArgumentException('An idempotency key has 1 to 255 printable characters.');
        }
        return $key;
    }

    /** Appends an id to the path. An empty id or dots would lead to another path. */
    public static function path(string $path, string $id, string $action = ''): string
    {
        if (in_array($id, ['', '.', '..'], true)) {
            throw new \InvalidArgumentException("'$id' is not an id.");
        }
        return $path . '/' . rawurlencode($id) . $action;
    }

    /** @return array<string, string> */
    public function headers(): array
    {
        return ['Accept' => 'application/json']
            + ($this->body === '' ? [] : ['Content-Type' => $this->content_type])
            + ($this->idempotency_key === null ? [] : ['Idempotency-Key' => $this->idempotency_key])
            + ($this->scenario === null ? [] : ['X-Sandbox-Scenario' => $this->scenario]);
    }

    /**
     * Returns the document or the file of a successful response.
     *
     * @return T
     * @throws \JsonException if the response is neither
     */
    public function read(Answer $answer): mixed
    {
        if ($this->file_type === null) {
            return ($this->read)(Document::of(ExactJson::decode($answer->body), 'The response'));
        }
        $found = trim(explode(';', $answer->headers['content-type'] ?? '')[0]);
        if ($found !== $this->file_type) {
            throw new \JsonException("it is '$found' instead of '$this->file_type'");
        }
        return $answer->body;
    }

    /**
     * Checks the field names of an order, and converts its amounts and times.
     *
     * The API ignores unknown fields, so it would not report a misspelled field name.
     *
     * @param array<string, mixed> $order
     * @param array<string, string> $types the type of each field, from Orders
     * @return array<string, mixed>
     */
    public static function converted(array $order, array $types): array
    {
        self::checkNames($order, array_keys($types));
        $converted = [];
        foreach ($order as $name => $value) {
            $converted[$name] = $value === null ? null : match ($types[$name]) {
                'amount' => new ExactNumber(Amount::checked($value)),
                'time' => self::time($value),
                'object' => (object) $value,
                default => $value,
            };
        }
        return $converted;
    }

    /**
     * @param array<string, mixed> $given
     * @param list<string> $known
     */
    public static function checkNames(array $given, array $known): void
    {
        $unknown = array_diff(array_keys($given), $known);
        if ($unknown !== []) {
            throw new \InvalidArgumentException('Unknown fields: ' . implode(', ', $unknown) . '.');
        }
    }

    public static function time(mixed $value): string
    {
        return match (true) {
            $value instanceof \DateTimeInterface => $value->format('Y-m-d\TH:i:s.uP'),
            is_string($value) => $value,
            default => throw new \InvalidArgumentException('Times must be DateTimeInterface objects or strings.'),
        };
    }

    /** @param array<string, mixed>|null $body */
    private static function encoded(?array $body): string
    {
        return $body === null ? '' : ExactJson::encode((object) $body);
    }

    /** @param array<string, mixed> $query */
    private static function queryString(array $query): string
    {
        $sent = [];
        foreach ($query as $name => $value) {
            if ($value !== null) {
                $sent[$name] = is_int($value) ? $value : self::time($value);
            }
        }
        return $sent === [] ? '' : '?' . http_build_query($sent, '', '&', PHP_QUERY_RFC3986);
    }
}
