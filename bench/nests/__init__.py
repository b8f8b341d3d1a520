"""Random nests with what they need at least: textbook loops of twelve families, for the wide benches of the CPU and of GPUs.

A nest is held as loops in Python's syntax. From these its program in ZynML and its peer in C are printed (`bench.nests.printing`), and
Python itself runs them at small sizes. What they compute is also written down a second time, with whole arrays in float64
(`Nest.reference`). A seed gives the same nest always."""
