"""`python -m bench.cpu`: see `bench.cpu.kernels`."""

from bench.cpu.kernels import main

if __name__ == "__main__":
    main()
