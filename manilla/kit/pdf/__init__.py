"""Draws PDF files."""
