"""Cases that administrators must decide: opening, listing and closing them."""
