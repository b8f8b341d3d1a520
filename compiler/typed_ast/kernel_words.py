"""Names of functions that only kernels have. A function of the program may use them, since a kernel may call it."""

_WORDS = frozenset(
    {
        *("thread_idx", "block_idx", "block_dim", "grid_dim", "global_idx", "lane_id"),
        *("barrier", "fence", "block_sum", "row_max", "row_sum"),
    }
)


def is_kernel_word(name: str) -> bool:
    """True of the functions for coordinates, barriers, atomics, warps and tiles."""
    return name in _WORDS or name.startswith(("atomic_", "warp_"))
