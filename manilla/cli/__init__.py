"""`manilla`, the operator's command."""
