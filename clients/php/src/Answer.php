<?php

declare(strict_types=1);

namespace Manilla;

/** A complete HTTP response. */
final class Answer
{
    /** @var array<string, string> header names in lower case */
    public readonly array $headers;

    /** @param array<string, string> $headers */
    public function __construct(
        public readonly int $status,
        array $headers,
        public readonly string $body,
    ) {
        $this->headers = array_change_key_case($headers);
    }

    /** Returns the value of Retry-After, which is a number of seconds or a date. */
    public function retryAfterSeconds(): ?int
    {
        $given = $this->headers['retry-after'] ?? '';
        if (preg_match('/^\d{1,9}$/D', $given) === 1) {
            return (int) $given;
        }
        $ends = self::time($given);
        if ($ends === null) {
            return null;
        }
        // The local clock is only used without the server's time, because it can be minutes off.
        return max(0, $ends - (self::time($this->headers['date'] ?? '') ?? time()));
    }

    /** @return array<array-key, mixed> the body, or an empty array if it is not a JSON object */
    public function document(): array
    {
        try {
            $document = ExactJson::decode($this->body);
        } catch (\JsonException) {
            return []; // A proxy may respond with a body that is not JSON.
        }
        return is_array($document) ? $document : [];
    }

    public function errorCode(): ?string
    {
        $code = $this->document()['error_code'] ?? null;
        return is_string($code) ? $code : null;
    }

    private static function time(string $text): ?int
    {
        $time = \DateTimeImmutable::createFromFormat('D, d M Y H:i:s \G\M\T', $text, new \DateTimeZone('UTC'));
        return $time === false ? null : $time->getTimestamp();
    }
}
