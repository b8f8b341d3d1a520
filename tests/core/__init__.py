"""The core language: what a text means in each dialect that takes it."""
