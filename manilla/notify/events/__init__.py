"""Events: a merchant's list of status changes, ordered so that no reader misses an event."""
