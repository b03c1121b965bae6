"""Console pages for administrators: merchants, providers, queues, the platform and its users."""
