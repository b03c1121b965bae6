"""Emails: an outbox beside the data, and the worker's job that sends from it."""
