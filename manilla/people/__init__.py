"""Users of the dashboard and the console: accounts, sign-in, sessions and permissions."""
