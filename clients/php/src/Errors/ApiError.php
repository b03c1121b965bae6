<?php

declare(strict_types=1);

namespace Manilla\Errors;

use Manilla\Answer;

/** The API rejected the request. This class is used for error codes without a separate class. */
class ApiError extends ManillaError
{
    protected const ADVICE = null;

    /** The HTTP status. */
    public readonly int $status;
    /** The stable code for error handling, or null if the response has no error code. */
    public readonly ?string $error_code;
    /** The API's text about the error. `getMessage()` also has the invalid fields, code and request id. */
    public readonly string $api_message;
    /** @var array<string, string> the error for each invalid field or header */
    public readonly array $errors;
    /** What to do about the error. */
    public readonly ?string $guidance;
    /** The request's id, which the operator needs to find the request. */
    public readonly ?string $request_id;
    public readonly ?int $retry_after_seconds;

    /** @param array<array-key, mixed> $document the response's body */
    final public function __construct(
        Answer $answer,
        array $document,
        bool $outcome_unknown = false,
        ?string $idempotency_key = null,
    ) {
        $this->status = $answer->status;
        $this->error_code = self::text($document['error_code'] ?? null);
        $this->api_message = self::text($document['error'] ?? null) ?? self::withoutText($answer);
        $this->errors = self::texts($document['errors'] ?? null);
        $this->guidance = self::text($document['guidance'] ?? null) ?? static::ADVICE;
        $this->request_id = $answer->headers['x-request-id'] ?? null;
        $this->retry_after_seconds = $answer->retryAfterSeconds();
        parent::__construct($this->shown(), $outcome_unknown, $idempotency_key, $answer->status);
        $this->readDetails($document);
    }

    /**
     * Creates the error of the class that belongs to the error code, or to the status without a code.
     *
     * @internal
     */
    public static function of(Answer $answer, bool $outcome_unknown = false, ?string $idempotency_key = null): self
    {
        $code = $answer->errorCode();
        $by_status = Codes::BY_STATUS[$answer->status] ?? self::class;
        $class = $code === null ? $by_status : Codes::BY_CODE[$code] ?? self::class;
        return new $class($answer, $answer->document(), $outcome_unknown, $idempotency_key);
    }

    /** @param array<array-key, mixed> $document */
    protected function readDetails(array $document): void
    {
    }

    final protected static function text(mixed $value): ?string
    {
        return is_string($value) ? $value : null;
    }

    private static function withoutText(Answer $answer): string
    {
        $location = $answer->headers['location'] ?? '';
        $redirect = $location === '' ? '' : " The client does not follow the redirect to $location.";
        return "The API responded with status $answer->status.$redirect";
    }

    private function shown(): string
    {
        $faults = '';
        foreach ($this->errors as $name => $fault) {
            $faults .= " $name: $fault";
        }
        $facts = $this->status . ' ' . ($this->error_code ?? 'without a code');
        $request = $this->request_id === null ? '' : ", request $this->request_id";
        return "$this->api_message$faults ($facts$request)";
    }

    /** @return array<string, string> */
    private static function texts(mixed $value): array
    {
        return array_filter(is_array($value) ? $value : [], is_string(...));
    }
}
