"""`manilla settle` and `manilla reconcile`."""
