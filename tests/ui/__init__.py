"""A package, so that its modules share a browser that ends before other tests start."""
