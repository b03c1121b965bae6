<?php

declare(strict_types=1);

namespace Manilla;

/** What the text of "Connect a shop" in the dashboard contains. Treat the text like a password. */
final class ShopConnection
{
    private const PREFIX = 'manilla_shop_1_';

    private function __construct(
        public readonly string $url,
        public readonly Credentials $credentials,
        public readonly string $webhook_endpoint,
        #[\SensitiveParameter] private readonly string $webhook_secret,
    ) {
    }

    /** Throws an InvalidArgumentException if the text is incomplete or something else. */
    public static function read(#[\SensitiveParameter] string $text): self
    {
        $encoded = trim($text);
        $json = str_starts_with($encoded, self::PREFIX)
            ? base64_decode(strtr(substr($encoded, strlen(self::PREFIX)), '-_', '+/'), true)
            : false;
        $given = $json === false ? null : json_decode($json, true);
        $found = [];
        $names = ['url', 'environment', 'merchant_key', 'api_key', 'api_secret', 'webhook_endpoint', 'webhook_secret'];
        foreach ($names as $name) {
            $value = is_array($given) ? $given[$name] ?? null : null;
            if (!is_string($value) || $value === '') { // The message must not contain the text.
                throw new \InvalidArgumentException('This is not the whole text of a shop\'s connection.');
            }
            $found[$name] = $value;
        }
        $credentials = new Credentials($found['merchant_key'], $found['api_key'], $found['api_secret']);
        if ($credentials->environment() !== $found['environment']) {
            throw new \InvalidArgumentException('The credentials belong to another environment.');
        }
        return new self($found['url'], $credentials, $found['webhook_endpoint'], $found['webhook_secret']);
    }

    /** Returns the secret for `Notifications::verifyWebhook`. */
    public function webhookSecret(): string
    {
        return $this->webhook_secret;
    }

    /** @return array<string, mixed> what `var_dump` shows: no secrets */
    public function __debugInfo(): array
    {
        return ['url' => $this->url, 'credentials' => $this->credentials];
    }
}
