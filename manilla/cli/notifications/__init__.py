"""Commands about notifications, and their signatures."""
