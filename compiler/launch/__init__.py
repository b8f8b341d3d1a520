"""From a call of a compute block to what runs: the signature that decides the kernel, arguments, results and faults, and an executor a
kind of device: `cpu`, `emulator`, `cuda`."""
