"""The registry of Nigerian banks, and what each provider account calls them."""
