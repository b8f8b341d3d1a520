"""The two tiers of tests. The commit tier is what `pytest` runs by itself, within minutes; `make slow` runs the rest, the cases marked
`slow`: the same tests with more sizes, types and seeds.

`breadth.toml` says which cases those are. Every test function keeps cases in the commit tier, except those listed as whole."""
