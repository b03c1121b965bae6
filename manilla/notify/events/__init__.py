"""A merchant's list of events about status changes, ordered so that no reader misses an event."""
