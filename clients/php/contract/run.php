<?php

declare(strict_types=1);

// Runs the contract of the clients. The README in clients/contract describes the cases.

require __DIR__ . '/../autoload.php';
require __DIR__ . '/Runner.php';

set_error_handler(static function (int $level, string $message, string $file, int $line): never {
    throw new ErrorException($message, 0, $level, $file, $line);
});
$runner = new Runner(__DIR__ . '/../../contract', (string) getenv('MANILLA_CONTRACT_URL'));
$runner->signatures();
$runner->notifications();
$runner->amounts();
$runner->connections();
$runner->waits();
$runner->errors();
$runner->scripted();
if (getenv('MANILLA_URL') !== false) {
    $runner->live();
}
exit($runner->report() ? 0 : 1);
