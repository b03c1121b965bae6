"""The merchant API. Its kernel authenticates and rate-limits the requests to all endpoints."""
