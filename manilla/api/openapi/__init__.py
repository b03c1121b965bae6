"""The API's description in OpenAPI 3.1, made from the table that the kernel serves."""

from manilla.api.openapi.document import document, operation_id, tag

__all__ = ["document", "operation_id", "tag"]
