<?php

declare(strict_types=1);

namespace Manilla;

/**
 * A complete HTTP response.
 *
 * @internal
 */
final class Answer
{
    /** @param array<string, string> $headers header names in lower case */
    public function __construct(
        public readonly int $status,
        public readonly array $headers,
        public readonly string $body,
    ) {
    }

    public function retryAfterSeconds(): ?int
    {
        $given = $this->headers['retry-after'] ?? '';
        return preg_match('/^\d{1,9}$/D', $given) === 1 ? (int) $given : null;
    }
}
