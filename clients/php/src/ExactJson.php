<?php

declare(strict_types=1);

namespace Manilla;

/**
 * Decodes and encodes JSON with exact decimals instead of floats.
 *
 * @internal
 */
final class ExactJson
{
    private const DEPTH_MAX = 128;
    // Matches a string, or a number. Possessive quantifiers prevent backtracking in long strings.
    private const TOKEN = '/"(?:[^"\\\\]++|\\\\.)*+"|(-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+)/s';
    private const SMALL_INTEGER = '/^(?:0|-?[1-9]\d{0,17})$/D';

    /** Decodes JSON. A number with a fraction, an exponent or many digits becomes an ExactNumber. */
    public static function decode(string $text): mixed
    {
        // json_decode rejects invalid documents, so the replacement below sees only valid ones.
        json_decode($text, true, self::DEPTH_MAX, JSON_THROW_ON_ERROR);
        $mark = bin2hex(random_bytes(8));
        $quoted = preg_replace_callback(
            self::TOKEN,
            static fn (array $token): string => self::isExact($token[1] ?? '') ? "\"$mark$token[1]\"" : $token[0],
            $text,
        );
        if ($quoted === null) {
            throw new \JsonException(preg_last_error_msg());
        }
        return self::restored(json_decode($quoted, true, self::DEPTH_MAX, JSON_THROW_ON_ERROR), $mark);
    }

    /** Replaces every ExactNumber in a decoded value with its digits. */
    public static function plain(mixed $value): mixed
    {
        if ($value instanceof ExactNumber) {
            return $value->digits;
        }
        return is_array($value) ? array_map(self::plain(...), $value) : $value;
    }

    /** Encodes a value. Rejects floats, because they are not exact. */
    public static function encode(mixed $value): string
    {
        if ($value instanceof ExactNumber) {
            return $value->digits;
        }
        if (is_float($value)) {
            throw new \InvalidArgumentException('Values must not be floats, because floats are not exact.');
        }
        if (is_array($value) && array_is_list($value)) {
            return '[' . implode(',', array_map(self::encode(...), $value)) . ']';
        }
        if (is_array($value) || $value instanceof \stdClass) {
            $parts = [];
            foreach ((array) $value as $name => $part) {
                $parts[] = self::encode((string) $name) . ':' . self::encode($part);
            }
            return '{' . implode(',', $parts) . '}';
        }
        return json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    }

    private static function isExact(string $number): bool
    {
        return $number !== '' && preg_match(self::SMALL_INTEGER, $number) !== 1;
    }

    private static function restored(mixed $value, string $mark): mixed
    {
        if (is_string($value) && str_starts_with($value, $mark)) {
            return new ExactNumber(substr($value, strlen($mark)));
        }
        if (!is_array($value)) {
            return $value;
        }
        return array_map(static fn (mixed $part): mixed => self::restored($part, $mark), $value);
    }
}
