<?php

declare(strict_types=1);

namespace ManillaForWooCommerce;

defined('ABSPATH') || exit;

use Manilla\Answer;
use Manilla\Failure;
use Manilla\Transport;

/** Sends requests with WordPress, so that its proxy settings and filters apply. */
final class HttpTransport implements Transport
{
    private const ANSWER_BYTES_MAX = 8 * 1024 * 1024;

    public function send(
        string $method,
        string $url,
        array $headers,
        string $body,
        float $timeout_seconds,
    ): Answer|Failure {
        $answer = wp_remote_request($url, [
            'method' => $method,
            'headers' => $headers,
            'user-agent' => $headers['User-Agent'] ?? '',
            'body' => $body === '' ? null : $body,
            'timeout' => $timeout_seconds,
            'redirection' => 0,
            'limit_response_size' => self::ANSWER_BYTES_MAX,
        ]);
        if (is_wp_error($answer)) {
            return new Failure('No response: ' . $answer->get_error_message());
        }
        $received = [];
        foreach (wp_remote_retrieve_headers($answer) as $name => $value) {
            $received[(string) $name] = is_array($value) ? (string) end($value) : (string) $value;
        }
        $content = wp_remote_retrieve_body($answer);
        return new Answer((int) wp_remote_retrieve_response_code($answer), $received, $content);
    }
}
