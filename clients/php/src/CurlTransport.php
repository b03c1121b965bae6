<?php

declare(strict_types=1);

namespace Manilla;

/** Sends HTTP requests with curl, which reuses the connection. */
final class CurlTransport implements Transport
{
    private const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
    // curl's errors if the server's certificate cannot be verified
    private const CERTIFICATE_ERRORS = [CURLE_SSL_PEER_CERTIFICATE, CURLE_SSL_CACERT, CURLE_SSL_CACERT_BADFILE];

    private ?\CurlHandle $handle = null;

    /**
     * @param ?string $ca_file the certificates to trust, if they differ from the system's
     * @param ?string $proxy the URL of an HTTP proxy; variables such as http_proxy are ignored
     */
    public function __construct(
        private readonly ?string $ca_file = null,
        private readonly ?string $proxy = null,
    ) {
    }

    public function send(
        string $method,
        string $url,
        array $headers,
        string $body,
        float $timeout_seconds,
    ): Answer|Failure {
        $handle = $this->handle ??= curl_init();
        curl_reset($handle);
        $received = [];
        $content = '';
        curl_setopt_array($handle, [
            CURLOPT_URL => $url,
            CURLOPT_PATH_AS_IS => true,
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_FOLLOWLOCATION => false,
            CURLOPT_NOSIGNAL => true,
            // curl has no timeout if it is 0.
            CURLOPT_CONNECTTIMEOUT_MS => (int) ceil($timeout_seconds * 1000),
            CURLOPT_TIMEOUT_MS => (int) ceil($timeout_seconds * 1000),
            // Without this option, curl reads the proxy from variables such as http_proxy.
            CURLOPT_PROXY => $this->proxy ?? '',
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => self::lines($headers),
            CURLOPT_HEADERFUNCTION => static function (\CurlHandle $handle, string $line) use (&$received): int {
                [$name, $value] = explode(':', $line, 2) + [1 => ''];
                $received[strtolower(trim($name))] = trim($value);
                return strlen($line);
            },
            CURLOPT_WRITEFUNCTION => static function (\CurlHandle $handle, string $part) use (&$content): int {
                $content .= $part;
                // A return value other than the part's length ends the transfer.
                return strlen($content) > self::ANSWER_BYTES_MAX ? -1 : strlen($part);
            },
        ]);
        if ($body !== '') {
            curl_setopt($handle, CURLOPT_POSTFIELDS, $body);
        }
        if ($this->ca_file !== null) {
            curl_setopt($handle, CURLOPT_CAINFO, $this->ca_file);
        }
        if (curl_exec($handle) === false) {
            return $this->failure(curl_errno($handle), curl_error($handle));
        }
        return new Answer(curl_getinfo($handle, CURLINFO_RESPONSE_CODE), $received, $content);
    }

    private function failure(int $number, string $message): Failure
    {
        if ($number === CURLE_WRITE_ERROR) {
            return new Failure('The response is too large.', is_final: true);
        }
        if (in_array($number, self::CERTIFICATE_ERRORS, true)) {
            return new Failure("The certificate cannot be verified: $message", is_final: true);
        }
        return new Failure("No response: $message (curl error $number)");
    }

    /**
     * @param array<string, string> $headers
     * @return list<string>
     */
    private static function lines(array $headers): array
    {
        $lines = ['Expect:']; // Without this line, curl waits for a 100 response before a large body.
        foreach ($headers as $name => $value) {
            $lines[] = "$name: $value";
        }
        return $lines;
    }
}
