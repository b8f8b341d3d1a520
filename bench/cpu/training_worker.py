"""A process of `bench.cpu.training`, for one side and one number of threads: `python training_worker.py SIDE THREADS REPOSITORY`. It
trains the network of `programs/zynml/digits.zynml` and stops before each epoch but the first, until it is told to go on; it answers
with the seconds of the epoch. Peers' interpreters run it too."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(sys.argv[3])
sys.path.insert(0, str(REPOSITORY))
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = sys.argv[2]

PROGRAM = REPOSITORY / "programs" / "zynml" / "digits.zynml"
BEFORE, AFTER = "    mut total = 0.0\n", "// ---- result"
"""Where an epoch of the program begins, and what stands behind the last."""
MANY = "1000000000"
WARM = 4
"""Epochs in which code is made."""


class Turns:
    """What stands still before an epoch."""

    def __init__(self) -> None:
        self.answers, self.started, self.epochs = sys.stdout, 0.0, 0

    def epoch_begins(self) -> None:
        ended = time.perf_counter()
        self.epochs += 1
        if self.epochs > WARM:
            self.answers.write(f"{ended - self.started}\n")
            self.answers.flush()
            if not sys.stdin.readline():
                os._exit(0)
        self.started = time.perf_counter()


class Lines:
    """Takes the place of the program's standard output: a line of ours is where an epoch begins."""

    encoding = "utf-8"

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def write(self, words: str) -> int:
        if "an epoch begins" in words:
            self.turns.epoch_begins()
        return len(words)

    def flush(self) -> None:
        pass


def ours(threads: int) -> None:
    """The program itself, with a line that tells of each epoch."""
    from zyntax.main import main

    text = PROGRAM.read_text()
    assert text.count(BEFORE) == text.count(AFTER) == 1
    text = text[: text.index(AFTER)].replace(BEFORE, f'    println("an epoch begins")\n{BEFORE}').replace("in 1..1000 = 30", f"= {MANY}")
    text = text.replace("../data/", f"{REPOSITORY / 'programs' / 'data'}/")
    sys.stdout = Lines(Turns())  # type: ignore[assignment]
    sys.argv[1:] = ["run", "-e", text, "--threads", str(threads)]
    main()


def numpy(threads: int) -> None:
    sys.argv[1:] = ["."]
    from bench.cpu import digits_numpy

    _train(digits_numpy.epoch)


def torch(threads: int) -> None:
    """With derivatives by autograd, and PyTorch's optimiser."""
    network = _layers(threads)
    from torch import nn, optim

    x, y, batch = network["x"], network["y"], network["batch"]
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimiser = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def epoch() -> float:
        total, batches = 0.0, 0
        for first in range(0, len(x), batch):
            loss = loss_of(model(x[first : first + batch]), y[first : first + batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
            batches += 1
        return total / batches

    _train(epoch)


def torch_by_hand(threads: int) -> None:
    """With the program's own derivatives and steps, in operations of PyTorch's."""
    network = _layers(threads)
    import torch

    x_all, y_all, batch = network["x"], network["y"], network["batch"]
    w1, w2 = torch.randn(64, 96) * (2 / 64) ** 0.5, torch.randn(96, 10) * (2 / 96) ** 0.5
    b1, b2 = torch.zeros(96), torch.zeros(10)
    v1, v2, u1, u2 = (torch.zeros_like(each) for each in (w1, w2, b1, b2))
    steps = ((w2, v2), (b2, u2), (w1, v1), (b1, u1))

    def epoch() -> float:
        total, batches = 0.0, 0
        for first in range(0, len(x_all), batch):
            x, y = x_all[first : first + batch], y_all[first : first + batch]
            a = torch.addmm(b1, x, w1)
            h = a.relu()
            log_p = torch.log_softmax(torch.addmm(b2, h, w2), 1)
            total += torch.nn.functional.nll_loss(log_p, y).item()
            batches += 1
            d2 = (log_p.exp() - torch.nn.functional.one_hot(y, 10)) / len(x)
            d1 = (d2 @ w2.T) * (a > 0)
            for (w, v), g in zip(steps, (h.T @ d2, d2.sum(0), x.T @ d1, d1.sum(0)), strict=True):
                v.mul_(0.9).sub_(g, alpha=0.1)
                w.add_(v)
        return total / batches

    with torch.inference_mode():
        _train(epoch)


def _layers(threads: int) -> dict[str, Any]:
    """The training images as PyTorch's tensors."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    with np.load(REPOSITORY / "programs" / "data" / "digits.npz") as stored:
        images, labels = stored["images"], stored["labels"]
    count = len(images)
    order = np.random.default_rng(7).permutation(count)[: count - count // 5]
    x = images[order].reshape(len(order), 64).astype(np.float32) / 16
    return {"x": torch.from_numpy(x), "y": torch.from_numpy(labels[order].astype(np.int64)), "batch": 64}


def _train(epoch: Callable[[], float]) -> None:
    turns = Turns()
    while True:
        turns.epoch_begins()
        epoch()


SIDES = {"ours": ours, "numpy": numpy, "torch": torch, "torch by hand": torch_by_hand}

if __name__ == "__main__":
    SIDES[sys.argv[1]](int(sys.argv[2]))
