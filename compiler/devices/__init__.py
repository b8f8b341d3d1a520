"""Where a compute block runs: which device it names or is estimated to be quickest on, what moving its data costs, how fast devices are."""
