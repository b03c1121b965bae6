"""Runs functions that parse strangers' files in processes of their own, with limits."""
