"""Calls of compute blocks on NVIDIA GPUs. `kernels` makes a block's kernels, `calls` runs one call; `repeats`, `direct` and `kept` are the
short ways of calls that come again, `native` the machine code that answers them in the end."""
