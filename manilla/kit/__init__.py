"""General-purpose tools that know nothing about payments and import no other package of Manilla."""
