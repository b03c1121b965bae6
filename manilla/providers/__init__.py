"""The interface to payment providers, and an adapter for each kind of provider."""
