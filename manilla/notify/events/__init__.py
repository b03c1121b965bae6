"""Events: the status changes of a merchant's transactions, in an order that loses nothing."""
