"""Pages of rails: how they deliver to banks, and their bank codes."""
