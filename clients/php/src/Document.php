<?php

declare(strict_types=1);

namespace Manilla;

use Manilla\Errors\BadAnswer;

/**
 * A JSON object of the API. Its methods return fields, and reject fields of another type.
 *
 * @internal
 */
final class Document
{
    /** @param array<array-key, mixed> $fields */
    private function __construct(private readonly array $fields, private readonly string $name)
    {
    }

    public static function of(mixed $value, string $name): self
    {
        if (!is_array($value) || (array_is_list($value) && $value !== [])) {
            throw new BadAnswer("$name is not an object.");
        }
        return new self($value, $name);
    }

    public function string(string $field): string
    {
        return $this->stringOrNull($field) ?? throw $this->missing($field);
    }

    public function stringOrNull(string $field): ?string
    {
        $value = $this->fields[$field] ?? null;
        return $value === null || is_string($value) ? $value : throw $this->mismatch($field, 'a string');
    }

    /**
     * Returns one of these values.
     *
     * @template T of string
     * @param list<T> $values
     * @return T
     */
    public function oneOf(string $field, array $values): string
    {
        $value = $this->string($field);
        return in_array($value, $values, true) ? $value : throw $this->mismatch($field, 'a known value');
    }

    public function int(string $field): int
    {
        return $this->intOrNull($field) ?? throw $this->missing($field);
    }

    public function intOrNull(string $field): ?int
    {
        $value = $this->fields[$field] ?? null;
        return $value === null || is_int($value) ? $value : throw $this->mismatch($field, 'an integer');
    }

    public function bool(string $field): bool
    {
        $value = $this->fields[$field] ?? throw $this->missing($field);
        return is_bool($value) ? $value : throw $this->mismatch($field, 'a boolean');
    }

    /** Returns a boolean that the API omits if it is false. */
    public function flag(string $field): bool
    {
        return isset($this->fields[$field]) && $this->bool($field);
    }

    public function amount(string $field): string
    {
        return $this->amountOrNull($field) ?? throw $this->missing($field);
    }

    public function amountOrNull(string $field): ?string
    {
        $value = $this->fields[$field] ?? null;
        return match (true) {
            $value === null => null,
            $value instanceof ExactNumber && Amount::isAmount($value->digits) => $value->digits,
            is_int($value) => (string) $value,
            default => throw $this->mismatch($field, 'an amount'),
        };
    }

    public function time(string $field): \DateTimeImmutable
    {
        return $this->timeOrNull($field) ?? throw $this->missing($field);
    }

    public function timeOrNull(string $field): ?\DateTimeImmutable
    {
        $value = $this->stringOrNull($field);
        if ($value === null) {
            return null;
        }
        $format = str_contains($value, '.') ? 'Y-m-d\TH:i:s.uP' : 'Y-m-d\TH:i:sP';
        $time = \DateTimeImmutable::createFromFormat($format, $value);
        return $time === false ? throw $this->mismatch($field, 'a time') : $time;
    }

    /** @return list<string> */
    public function strings(string $field): array
    {
        $values = $this->list($field);
        foreach ($values as $value) {
            is_string($value) || throw $this->mismatch($field, 'a list of strings');
        }
        return $values;
    }

    /** @return list<int> */
    public function ints(string $field): array
    {
        $values = $this->list($field);
        foreach ($values as $value) {
            is_int($value) || throw $this->mismatch($field, 'a list of integers');
        }
        return $values;
    }

    /** @return array<string, string> */
    public function map(string $field): array
    {
        $values = $this->fields[$field] ?? throw $this->missing($field);
        if (!is_array($values) || (array_is_list($values) && $values !== [])) {
            throw $this->mismatch($field, 'an object');
        }
        foreach ($values as $value) {
            is_string($value) || throw $this->mismatch($field, 'an object with strings');
        }
        return $values;
    }

    public function object(string $field): self
    {
        return self::of($this->fields[$field] ?? throw $this->missing($field), "$this->name.$field");
    }

    /**
     * Returns the object, converted by the function, or null if there is none.
     *
     * @template T
     * @param callable(self): T $read
     * @return T|null
     */
    public function objectOrNull(string $field, callable $read): mixed
    {
        return ($this->fields[$field] ?? null) === null ? null : $read($this->object($field));
    }

    /**
     * Returns the list's objects, each converted by the function.
     *
     * @template T
     * @param callable(self): T $read
     * @return list<T>
     */
    public function objects(string $field, callable $read): array
    {
        $name = "$this->name.$field";
        return array_map(static fn (mixed $each) => $read(self::of($each, $name)), $this->list($field));
    }

    /**
     * Returns the objects of a list that the API omits if it is empty.
     *
     * @template T
     * @param callable(self): T $read
     * @return list<T>
     */
    public function objectsIfAny(string $field, callable $read): array
    {
        return isset($this->fields[$field]) ? $this->objects($field, $read) : [];
    }

    /** @return list<mixed> */
    private function list(string $field): array
    {
        $value = $this->fields[$field] ?? throw $this->missing($field);
        return is_array($value) && array_is_list($value) ? $value : throw $this->mismatch($field, 'a list');
    }

    private function missing(string $field): BadAnswer
    {
        return new BadAnswer("$this->name.$field is missing.");
    }

    private function mismatch(string $field, string $expected): BadAnswer
    {
        return new BadAnswer("$this->name.$field is not $expected.");
    }
}
