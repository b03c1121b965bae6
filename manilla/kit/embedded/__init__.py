"""Runs the programs of one instance, including an embedded PostgreSQL server."""
