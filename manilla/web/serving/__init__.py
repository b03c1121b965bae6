"""Serves pages over ASGI: the router, requests and responses."""
