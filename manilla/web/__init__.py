"""Shared by dashboard and console: requests, forms, lists, templates and account pages."""
