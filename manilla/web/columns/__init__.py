"""The columns of lists that both the dashboard and the console show."""
