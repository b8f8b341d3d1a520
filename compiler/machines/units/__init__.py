"""What multiplies matrices, a table each: who issues a product, of which dtypes, in which shapes."""
