"""The columns of lists that both realms show."""
