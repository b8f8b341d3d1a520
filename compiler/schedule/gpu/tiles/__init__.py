"""Fields on blocks of threads: tables of their axes, tiles, and reductions over lanes, warps, blocks and clusters."""
