"""Why an HTTP call has no complete response, as far as callers must tell the reasons apart."""


class HttpError(Exception):
    """The call has no complete response."""


class NotConnected(HttpError):
    """No byte of the request was written, so the server certainly does not know it."""

    def __init__(self, host: str, cause: OSError) -> None:
        super().__init__(f"{host}: {cause}")
        self.host = host
        self.cause = cause


class UnknownHost(NotConnected):
    """The host name has no address."""


class AddressRefused(NotConnected):
    """The IP address is not on the public internet."""


class CertificateRejected(NotConnected):
    """The server's TLS certificate is not valid for this host."""


class ConnectTimeout(NotConnected):
    """The server did not accept the connection in time."""


class Disconnected(HttpError):
    """The connection ended after the request may have been written, and before a response."""

    def __init__(self, cause: OSError | None = None) -> None:
        super().__init__(str(cause or "closed"))
        self.cause = cause  # None if the server closed the connection


class IncompleteReply(HttpError):
    """The connection ended within the response's body."""


class MalformedReply(HttpError):
    """The response is not valid HTTP."""


class InvalidUrl(HttpError, ValueError):
    """The URL cannot be called."""
