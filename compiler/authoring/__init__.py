"""Languages by authors outside of this repository: their grammars, actions and kernels, and what is made of them. `zyntax.language` is the
part of it that they import."""
