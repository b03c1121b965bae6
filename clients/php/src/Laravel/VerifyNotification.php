<?php

declare(strict_types=1);

namespace Manilla\Laravel;

use Closure;
use Illuminate\Contracts\Config\Repository;
use Illuminate\Http\Request;
use Illuminate\Http\Response;
use Manilla\Errors\BadNotification;
use Manilla\Notification;
use Symfony\Component\HttpFoundation\Response as AnyResponse;

/** Responds with 401 to requests that are not from Manilla, and passes on the others. */
abstract class VerifyNotification
{
    /** The configuration that contains the secret, unless the route names another one. */
    protected const SECRET = '';

    public function __construct(private readonly Repository $config)
    {
    }

    /**
     * Verifies the request. The request's attribute `manilla` is then the Notification.
     *
     * @param ?string $secret_name the name of another configuration with the secret
     */
    public function handle(Request $request, Closure $next, ?string $secret_name = null): AnyResponse
    {
        $name = $secret_name ?? static::SECRET;
        $secret = $this->config->get($name);
        if (!is_string($secret)) {
            throw new \InvalidArgumentException("The configuration $name is not set.");
        }
        try {
            $notification = $this->verify($request->getContent(), $request->headers->all(), $secret);
        } catch (BadNotification) {
            return new Response('The signature is not valid.', 401);
        }
        $request->attributes->set('manilla', $notification);
        return $next($request);
    }

    /** @param array<string, list<string|null>> $headers */
    abstract protected function verify(
        string $body,
        array $headers,
        #[\SensitiveParameter] string $secret,
    ): Notification;
}
