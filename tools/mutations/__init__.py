"""Mutation tests: changes the code at random places, and counts the changes that no test finds."""
