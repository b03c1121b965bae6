"""Dossiers: what a merchant submits about its business, and how the operator decides on it."""
