"""The reasons why an HTTP call has no complete response, with one class for each reason."""


class HttpError(Exception):
    """The call has no complete response."""


class NotConnected(HttpError):
    """No byte of the request was written, so the server cannot have received the request."""

    def __init__(self, host: str, cause: OSError) -> None:
        super().__init__(f"{host}: {cause}")
        self.host = host
        self.cause = cause


class UnknownHost(NotConnected):
    """The host name has no IP address."""


class AddressRefused(NotConnected):
    """The IP address is not on the public internet."""


class CertificateRejected(NotConnected):
    """The server's TLS certificate is not valid for this host."""


class ConnectTimeout(NotConnected):
    """The server did not accept the connection in time."""


class Disconnected(HttpError):
    """The connection ended before a response. The server may have received the request."""

    def __init__(self, cause: OSError | None = None) -> None:
        super().__init__(str(cause or "closed"))
        self.cause = cause  # None if the server closed the connection


class IncompleteReply(HttpError):
    """The connection ended before the response's body was complete."""


class MalformedReply(HttpError):
    """The response is not valid HTTP."""


class InvalidUrl(HttpError, ValueError):
    """The URL is invalid, so it cannot be called."""
