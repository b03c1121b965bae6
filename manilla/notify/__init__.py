"""Notifications to merchants about their transactions."""
