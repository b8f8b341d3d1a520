"""`programs/zynml/gpt.zynml` beside PyTorch, from the same weights over the same bytes: the losses of both at each step, the largest
difference of two, and the time of a step.

    python -m bench.gpu.training --json training.json

trains the large size (6 layers, width 768, 12 heads, context 1024, 16 sequences a step) for 30 steps on `cuda:0`. The first step compiles
some 40 kernels, which takes most of the time; `--steps 10` is enough to compare losses.
`--layers 2 --width 64 --heads 4 --context 32 --batch 4 --steps 5 --device cpu` tries it out without a GPU.
It exits with 1 where losses differ by more than `--within` (0.01) of PyTorch's.

With `--compile` a third side is PyTorch's again, whose losses and derivatives are code of `torch.compile`.

PyTorch's side is a module of `torch.nn.functional` under bf16 autocast, with its fused attention and its fused Adam. All take each step
in turn, in one process. A step's time is between two points at which the host has waited for the device; the first third of the steps,
in which kernels are compiled, isn't counted. Schedules are chosen by estimates alone, unless `--tune` lets the first steps try some out."""

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
KINDS = 128
"""Of bytes."""


def driver_of() -> str:
    from runtime.cuda.driver import driver

    return "of CUDA {}.{}".format(*driver().version)


def weights_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Each weight of the program's model with a name for PyTorch's."""
    yield from (("byte", model.byte), ("place", model.place))
    for number, layer in enumerate(model.layers):
        for name in ("first", "second"):
            part = getattr(layer, name)
            yield from ((f"{number}.{name}.gain", part.gain), (f"{number}.{name}.bias", part.bias))
        for name in ("joint", "merge", "up", "down"):
            part = getattr(layer, name)
            yield from ((f"{number}.{name}.weights", part.weights), (f"{number}.{name}.bias", part.bias))
    yield from (("last.gain", model.last.gain), ("last.bias", model.last.bias))


class Peer:
    """The same network in PyTorch, with copies of the program's weights; `compiled`: by `torch.compile`."""

    def __init__(self, model: Any, layers: int, heads: int, rate: float, device: str, compiled: bool = False) -> None:
        import torch

        self.layers, self.heads, self.rate, self.device = layers, heads, rate, device
        self.w = {name: torch.from_numpy(np.array(weight.value.array)).to(device).requires_grad_() for name, weight in weights_of(model)}
        self.adam = torch.optim.Adam(self.w.values(), lr=rate, betas=(0.9, 0.99), eps=1e-8, fused=True)
        self.loss_of = torch.compile(self.loss) if compiled else self.loss

    def norm(self, x: Any, name: str) -> Any:
        from torch.nn import functional

        return functional.layer_norm(x, x.shape[-1:], self.w[f"{name}.gain"], self.w[f"{name}.bias"], 1e-5)

    def dense(self, x: Any, name: str) -> Any:
        from torch.nn import functional

        return functional.linear(x, self.w[f"{name}.weights"].t(), self.w[f"{name}.bias"])

    def loss(self, token: Any, following: Any) -> Any:
        from torch.nn import functional

        batch, length = token.shape
        x = self.w["byte"][token] + self.w["place"][:length]
        width = x.shape[-1]
        for number in range(self.layers):
            joint = self.dense(self.norm(x, f"{number}.first"), f"{number}.joint")
            q, k, v = joint.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.dense(mixed.transpose(1, 2).reshape(batch, length, width), f"{number}.merge")
            wide = self.dense(self.norm(x, f"{number}.second"), f"{number}.up")
            x = x + self.dense(functional.gelu(wide, approximate="tanh"), f"{number}.down")
        logits = functional.linear(self.norm(x, "last"), self.w["byte"])
        return functional.cross_entropy(logits.view(-1, KINDS).float(), following.reshape(-1))

    def train(self, token: Any, following: Any, step: int) -> Any:
        import torch

        for group in self.adam.param_groups:
            group["lr"] = self.rate * min(1.0, step / 20)
        with torch.autocast(self.device.split(":")[0], torch.bfloat16):
            loss = self.loss_of(token, following)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        return loss.detach()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.training", description="The transformer of the gallery against PyTorch.")
    for name, value in {"layers": 6, "width": 768, "heads": 12, "context": 1024, "batch": 16, "steps": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=0.0006)
    parser.add_argument("--within", type=float, default=0.01, help="the largest difference of two losses, over PyTorch's")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--tune", action="store_true", help="let the first steps try schedules out")
    parser.add_argument("--compile", action="store_true", help="PyTorch's network by `torch.compile`, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not options.tune:
        os.environ["ZYNTAX_TUNE"] = "off"
    found = run(options)
    text = json.dumps(found, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")
    if not found["largest_relative_difference"] <= options.within:
        sys.exit(f"losses differ by {found['largest_relative_difference']:.4f} of PyTorch's, more than {options.within}")


def windows(options: argparse.Namespace) -> Iterator[tuple[Any, Any]]:
    """The bytes of each step, and those that follow them."""
    story = np.frombuffer((ROOT / "programs" / "data" / "moby_dick.txt").read_bytes(), np.uint8)
    rng = np.random.default_rng(5)
    for _ in range(options.steps):
        start = rng.integers(0, len(story) - options.context - 1, options.batch)
        window = np.stack([story[at : at + options.context + 1] for at in start])
        yield np.ascontiguousarray(window[:, :-1]), np.ascontiguousarray(window[:, 1:])


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The losses of all, their largest difference, and the times of their steps; the ratio is of the quickest of PyTorch's to ours."""
    import torch

    from compiler.driver import CompileOptions
    from compiler.source import Sources
    from runtime.tensor import Tensor
    from zynml.api import open_program

    settings = CompileOptions(device=options.device, parameters={"steps": "0", "writes": "0"})
    program: Any = open_program(str(ROOT / "programs" / "zynml" / "gpt.zynml"), settings, Sources(), lambda warning: None)
    functions = program.host.functions
    model = functions["gpt"](options.layers, options.width, options.heads, options.context)
    ways = {"PyTorch": False, **({"torch.compile": True} if options.compile else {})}
    network = model, options.layers, options.heads, options.rate, options.device
    peers = {name: Peer(*network, compiled) for name, compiled in ways.items()}
    gpu = options.device.startswith("cuda")
    wait = torch.cuda.synchronize if gpu else lambda: None
    losses: dict[str, list[float]] = {"ours": [], **{name: [] for name in peers}}
    times: dict[str, list[float]] = {name: [] for name in losses}
    for step, given in enumerate(windows(options), 1):
        wide = [torch.from_numpy(part.astype(np.int64)).to(options.device) for part in given]
        calls = {
            "ours": partial(functions["train"], model, *map(Tensor, given), step, options.rate),
            **{name: partial(peer.train, *wide, step) for name, peer in peers.items()},
        }
        for name, call in calls.items():
            wait()
            began = time.perf_counter()
            losses[name].append(float(call()))
            wait()
            times[name].append(time.perf_counter() - began)
        shown = (f"{name}: loss {losses[name][-1]:.4f} in {times[name][-1]:.3f} s" for name in losses)
        print(f"step {step}  {'  '.join(shown)}", flush=True)
    warm = options.steps // 3
    medians = {name: statistics.median(values[warm:]) for name, values in times.items()}
    differences = [abs(ours - theirs) / theirs for ours, theirs in zip(losses["ours"], losses["PyTorch"], strict=True)]
    return {
        "device": torch.cuda.get_device_properties(0).name if gpu else options.device,
        "driver": driver_of() if gpu else None,
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "settings": {name: getattr(options, name) for name in ("layers", "width", "heads", "context", "batch", "steps", "rate", "tune")},
        "losses": losses,
        # one that is NaN is the largest
        "largest_relative_difference": float(np.max(differences)),
        "step_s": medians,
        "ratio": min(medians[name] for name in peers) / medians["ours"],
    }


if __name__ == "__main__":
    main()
