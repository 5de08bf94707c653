"""Values of Google's bill."""
