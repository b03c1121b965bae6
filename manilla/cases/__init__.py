"""Opens, lists and closes cases, which administrators must decide."""
