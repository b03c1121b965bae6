"""Receipts for payments and payouts: a page, a PDF, and a public verification page."""
