"""Emails: an outbox in the database, and the worker's job that sends emails from it."""
