<?php

declare(strict_types=1);

namespace Manilla;

/** A merchant key, API key and API secret. Their prefix identifies the environment. */
final class Credentials
{
    private const SANDBOX_PREFIX = 'test_';

    public function __construct(
        public readonly string $merchant_key,
        #[\SensitiveParameter] private readonly string $api_key,
        #[\SensitiveParameter] private readonly string $api_secret,
    ) {
        $given = ['merchant_key' => $merchant_key, 'api_key' => $api_key, 'api_secret' => $api_secret];
        foreach ($given as $name => $value) {
            if (preg_match('/^[!-~]+$/D', $value) !== 1) { // The message must not contain the value.
                throw new \InvalidArgumentException("$name must be printable ASCII characters without spaces.");
            }
        }
        $prefixed = array_filter($given, static fn (string $each) => str_starts_with($each, self::SANDBOX_PREFIX));
        if (count($prefixed) !== 0 && count($prefixed) !== 3) {
            throw new \InvalidArgumentException('The credentials belong to different environments.');
        }
    }

    /** Reads MANILLA_MERCHANT_KEY, MANILLA_API_KEY and MANILLA_API_SECRET. */
    public static function fromEnvironment(): self
    {
        return new self(
            self::variable('MANILLA_MERCHANT_KEY'),
            self::variable('MANILLA_API_KEY'),
            self::variable('MANILLA_API_SECRET'),
        );
    }

    /** @internal */
    public static function variable(string $name): string
    {
        $value = getenv($name);
        if ($value === false || $value === '') {
            throw new \InvalidArgumentException("$name is not set in the environment.");
        }
        return $value;
    }

    /** @return 'sandbox'|'production' */
    public function environment(): string
    {
        return str_starts_with($this->merchant_key, self::SANDBOX_PREFIX) ? 'sandbox' : 'production';
    }

    /** @return array<string, string> the headers that authenticate a request */
    public function headers(int $timestamp, string $method, string $target, string $body): array
    {
        return [
            'X-Environment' => $this->environment(),
            'X-Merchant-Key' => $this->merchant_key,
            'X-API-Key' => $this->api_key,
            'X-Timestamp' => (string) $timestamp,
            'X-Signature' => self::sign($this->api_secret, $timestamp, $method, $target, $body),
        ];
    }

    /** Signs the exact bytes that are sent: the path with its query string, and the body. */
    public static function sign(
        #[\SensitiveParameter] string $secret,
        int $timestamp,
        string $method,
        string $target,
        string $body,
    ): string {
        return hash_hmac('sha256', "$timestamp.$method.$target.$body", $secret);
    }

    /** @return array<string, string> the parts that may be shown in a dump */
    public function __debugInfo(): array
    {
        return ['merchant_key' => $this->merchant_key, 'environment' => $this->environment()];
    }
}
