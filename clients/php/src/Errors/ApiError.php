<?php

declare(strict_types=1);

namespace Manilla\Errors;

/** The API rejected the request. This class is used for error codes without a separate class. */
class ApiError extends ManillaError
{
    protected const ADVICE = null;

    /** The stable code for error handling, or null if the response has no error code. */
    public readonly ?string $error_code;
    /** @var array<string, string> the error for each invalid field or header */
    public readonly array $errors;
    /** What to do about the error. */
    public readonly ?string $guidance;

    /** @param array<array-key, mixed> $document */
    final public function __construct(
        /** The HTTP status. */
        public readonly int $status,
        array $document,
        /** The request's id, which the operator needs to find the request. */
        public readonly ?string $request_id = null,
        public readonly ?int $retry_after_seconds = null,
        /** The idempotency key of a POST request. Use it to retry the request. */
        public readonly ?string $idempotency_key = null,
    ) {
        $this->error_code = self::text($document['error_code'] ?? null);
        $this->errors = self::texts($document['errors'] ?? null);
        $this->guidance = self::text($document['guidance'] ?? null) ?? static::ADVICE;
        $message = self::text($document['error'] ?? null) ?? "The API responded with status $status.";
        parent::__construct($message, $status);
        $this->readDetails($document);
    }

    /**
     * Creates the error of the class that belongs to the error code, or to the status without a code.
     *
     * @internal
     * @param array<array-key, mixed> $document
     */
    public static function of(
        int $status,
        array $document,
        ?string $request_id,
        ?int $retry_after_seconds,
        ?string $idempotency_key,
    ): self {
        $code = self::text($document['error_code'] ?? null);
        $class = $code === null ? Codes::BY_STATUS[$status] ?? self::class : Codes::BY_CODE[$code] ?? self::class;
        return new $class($status, $document, $request_id, $retry_after_seconds, $idempotency_key);
    }

    /** @param array<array-key, mixed> $document */
    protected function readDetails(array $document): void
    {
    }

    final protected static function text(mixed $value): ?string
    {
        return is_string($value) ? $value : null;
    }

    /** @return array<string, string> */
    private static function texts(mixed $value): array
    {
        return array_filter(is_array($value) ? $value : [], is_string(...));
    }
}
