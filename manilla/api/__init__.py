"""The merchant API. One kernel authenticates and rate-limits the requests to every endpoint."""
