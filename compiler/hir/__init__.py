"""The HIR: one module format for CPU and GPU, lowered step by step from the textbook's loops to threads and registers.

`affine` and `types` are its vocabulary, `instruction` says how an instruction is declared; the families of instructions
stand one a file (`core`, `memory`, `control`, `gpu`, `tensor_core`, `async_copy`, `hopper`, `ring`). `text`, `parse`
and `verify` are derived from the declarations."""
