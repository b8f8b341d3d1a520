"""TypedAST to HIR: compute blocks become functions in nest form, with a plan of how to launch them."""
