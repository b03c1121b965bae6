<?php

declare(strict_types=1);

// A Laravel application that verifies notifications. `php -S 127.0.0.1:9000 index.php` runs it.

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;

require getenv('LARAVEL_AUTOLOAD') ?: '/usr/share/php/Illuminate/autoload.php';
require getenv('MANILLA_AUTOLOAD') ?: __DIR__ . '/../../autoload.php';

$app = new Application(__DIR__);
$app->singleton(Kernel::class, Illuminate\Foundation\Http\Kernel::class);
$app->singleton(ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
$app->booted(static fn () => require __DIR__ . '/routes.php');
$kernel = $app->make(Kernel::class);
$request = Request::capture();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
