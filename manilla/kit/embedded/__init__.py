"""Starts and supervises the programs of one instance, including an embedded PostgreSQL server."""
