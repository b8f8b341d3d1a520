"""Random programs, the whole way: loop nests as a textbook might write them (maps, reductions, contractions, windows, chains, scans,
searches, recurrences; random order of loops, bounds, steps, offsets, guards, dtypes, layouts), each written in ZynML and in plain Python
at once. On the CPU, Python, the interpreter, native code at O0, and at O3 on one, two and three threads must agree; on another device,
that device, the CPU and Python: to the bit, since all numbers are small integers, except where a program divides or takes roots.

    python -m tests.random_nests 2000 [first seed]              prints what differs, with the smallest program that shows it; exit code 1
    python -m tests.random_nests 500 --device emulator          on the emulator, every launch assembled for two GPU targets in turn
    python -m tests.random_nests 500 --device cuda:0 --processes 16"""
