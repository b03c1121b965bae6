<?php

declare(strict_types=1);

namespace Manilla;

/** Sends the client's HTTP requests. Pass your own to use the HTTP functions of a framework. */
interface Transport
{
    /**
     * Sends one request, without following redirects.
     *
     * Return a Failure if there is no complete response. It is not known then whether the request has
     * taken effect, so never repeat a request yourself: the client does.
     *
     * @param string $url the whole URL, which must be sent unchanged, because it is signed
     * @param array<string, string> $headers all headers of the request
     * @param string $body the raw body, which must be sent unchanged; empty if there is none
     */
    public function send(
        string $method,
        string $url,
        array $headers,
        string $body,
        float $timeout_seconds,
    ): Answer|Failure;
}
