"""Sessions of the database: how they are opened, what their errors mean, and how many remain."""
