"""Pages of rails: success rates for each bank, and the providers' bank codes."""
