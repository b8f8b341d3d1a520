"""Programs that are run, not replayed: `fn main()` and what it calls. They run where ZynML's host code does, with its library and its
compute blocks; floats are f64."""
