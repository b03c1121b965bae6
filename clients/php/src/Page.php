<?php

declare(strict_types=1);

namespace Manilla;

/**
 * A page of a list. For the next page, pass `next_cursor` as `cursor`.
 *
 * @template T
 */
final class Page
{
    /** @param list<T> $data */
    private function __construct(
        public readonly array $data,
        public readonly ?string $next_cursor,
    ) {
    }

    /**
     * @internal
     * @template U
     * @param callable(Document): U $read_item
     * @return self<U>
     */
    public static function read(Document $document, callable $read_item): self
    {
        return new self($document->objects('data', $read_item), $document->stringOrNull('next_cursor'));
    }
}
