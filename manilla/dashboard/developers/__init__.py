"""The pages for developers: API keys, the API explorer, and the log of API requests."""
