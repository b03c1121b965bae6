"""General-purpose tools, independent of payments. They import no other package of Manilla."""
