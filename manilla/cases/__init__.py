"""Opens, lists and closes cases: problems that an administrator must resolve."""
