<?php
/** Verifies that a notification is from Manilla. Pass file_get_contents('php://input'). */
function verify(string $raw_body, ?string $signature_header, string $secret): bool
{
    if ($secret === '') {
        return false;
    }
    $expected = hash_hmac('sha256', $raw_body, $secret);
    $given = preg_replace('/^sha256=/', '', $signature_header ?? '');
    return hash_equals($expected, $given);
}

if (PHP_SAPI === 'cli' && realpath($argv[0]) === __FILE__) {
    exit(verify(file_get_contents($argv[1]), $argv[2], getenv('MANILLA_API_SECRET')) ? 0 : 1);
}
