"""Programs of the bench's own that are measured like the product, in processes of their own."""
