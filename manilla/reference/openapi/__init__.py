"""The OpenAPI 3.1 document of the merchant API, built from the endpoint table."""

from manilla.reference.openapi.document import document, operation_id, tag

__all__ = ["document", "operation_id", "tag"]
