"""Commands about providers: accounts, methods and banks."""
