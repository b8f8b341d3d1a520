"""The TypedAST: what every language frontend builds and everything below starts from."""
