<?php
/** Verifies that a webhook is from Manilla. Pass php://input and the three webhook- headers. */
function verify(
    string $raw_body, string $id, string $timestamp, string $signatures, string $secret
): bool {
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    if ($key === '') {
        return false;
    }
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$raw_body", $key, true));
    foreach (explode(' ', $signatures) as $given) { // there are two after a rotation
        if (hash_equals($expected, $given)) {
            return abs(time() - (int) $timestamp) <= 300; // an older webhook may be a replay
        }
    }
    return false;
}

if (PHP_SAPI === 'cli' && realpath($argv[0]) === __FILE__) {
    [, $file, $id, $timestamp, $signatures] = $argv;
    $secret = getenv('MANILLA_WEBHOOK_SECRET');
    exit(verify(file_get_contents($file), $id, $timestamp, $signatures, $secret) ? 0 : 1);
}
