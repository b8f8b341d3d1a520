"""The loops of `bench/loops.py` in Numba, in an interpreter of its own.

    python numba_loops.py FOLDER KERNEL

FOLDER holds the inputs, 0.npy and so on. Each line on standard input is answered by the processor seconds of a call. The first call
compiles, and its result is saved as result.npy. The loops are those of `bench/kernels.zynml`, with `fastmath` and one thread."""

import sys
import time
from pathlib import Path

import numpy as np
from numba import njit


@njit(fastmath=True)
def matmul(a, b):
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = np.float32(0)
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            out[i, j] = s
    return out


@njit(fastmath={"reassoc", "nsz", "arcp", "contract"})  # -inf is the first maximum, so infinities count
def softmax(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        top = np.float32(-np.inf)
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += np.exp(x[i, j] - top)
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - top) / total
    return out


@njit(fastmath=True)
def argmax(x):
    best, place = x[0], 0
    for i in range(x.size):
        if x[i] > best:
            best, place = x[i], i
    return place


@njit(fastmath=True)
def scan(x):
    out = np.empty_like(x)
    total = np.float32(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return out


@njit(fastmath=True)
def heat(x):
    out = np.zeros((x.shape[0] - 1, x.shape[1] - 1), x.dtype)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            out[i, j] = np.float32(0.25) * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
    return out


def main():
    folder = Path(sys.argv[1])
    function = {"matmul": matmul, "softmax": softmax, "argmax": argmax, "scan": scan, "heat": heat}[sys.argv[2]]
    inputs = [np.load(path) for path in sorted(folder.glob("[0-9].npy"))]
    first = True
    for _ in sys.stdin:
        started = time.process_time()
        result = function(*inputs)
        seconds = time.process_time() - started
        if first:
            np.save(folder / "result.npy", result)
            first = False
        print(seconds, flush=True)


main()
