"""Pages of company sign-in, in the dashboard and the console."""
