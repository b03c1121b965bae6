"""Rail pages: success rates for each bank, and the providers' bank codes."""
