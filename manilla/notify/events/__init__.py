"""Events: status changes of a merchant's transactions, listed so that no reader misses one."""
