"""Finds what an id that we handed out belongs to."""
