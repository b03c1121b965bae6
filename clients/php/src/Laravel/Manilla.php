<?php

declare(strict_types=1);

namespace Manilla\Laravel;

use Illuminate\Support\Facades\Facade;
use Manilla\Client;

/**
 * The facade of the client.
 *
 * @mixin Client
 */
final class Manilla extends Facade
{
    protected static function getFacadeAccessor(): string
    {
        return Client::class;
    }
}
