"""Languages by authors outside of this repository: what they write against, and what they get."""
