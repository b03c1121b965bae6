"""Cases for administrators: contradictions, and money whose owner is not decided yet."""
