"""Textbook nests on a GPU against what people use there.

    python -m bench.gpu [--only matmul,softmax] [--kinds products,memory] [--quick] [--rounds 7]
        [--seconds 120] [--json FILE]

`bench.gpu.harness` says how it is measured. The ratio is the best peer's time over ours, the median of the rounds (above 1: we are
faster)."""

import argparse
import datetime
import json
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TUNING = "1"
"""Seconds of a row at most, where nothing else is said."""

KINDS = ("products", "convolutions", "attention", "memory", "windows", "scans_sorts", "ragged", "programs")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description="Textbook nests on a GPU against what people use there.")
    parser.add_argument("--only", default="", help="rows with one of these words, between commas")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--quick", action="store_true", help="the rows that matter most")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-tune", action="store_true", help="estimates alone decide on schedules; else rows that were tuned tell both")
    parser.add_argument("--scale", type=int, default=1, help="divides the largest extents")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no row is begun")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # first calls compile, but for kernels that rows before had
        os.environ.setdefault("ZYNTAX_CACHE_DIR", folder)
        os.environ.setdefault("ZYNTAX_TUNE_BUDGET", TUNING)
        if options.no_tune:
            os.environ["ZYNTAX_TUNE"] = "off"
        run(options)


def run(options: argparse.Namespace) -> None:
    """The rows that are wanted, each a line, then means; and all of it as JSON."""

    import importlib

    import torch

    from bench.gpu.harness import measured, release
    from bench.gpu.limits import limits_of
    from runtime.cuda.driver import driver

    device = torch.cuda.get_device_properties(0)
    limits = limits_of(device.name)
    words = [word for word in options.only.split(",") if word]
    results = []
    began = time.perf_counter()
    try:
        for kind in options.kinds.split(","):
            for row in importlib.import_module(f"bench.gpu.{kind}").rows(options.scale):
                if (words and not any(word in row.name for word in words)) or (options.quick and not row.quick):
                    continue
                if time.perf_counter() - began > options.seconds:
                    print(f"{row.name}: left out, the time is up")
                    continue
                try:
                    found = measured(row, options.rounds, limits)
                except Exception as error:
                    found = {"workload": row.name, "failed": f"{type(error).__name__}: {error}"[:400]}
                found["kind"] = kind
                results.append(found)
                print(line(found), flush=True)
                release()
    except KeyboardInterrupt:
        print("interrupted: these are the rows before")
    for group, (ratio, count) in means(results).items():
        print(f"geometric mean of {group} ({count} rows): {ratio:.3f}")
    untuned = without_tuning(results)
    if untuned is not None:
        print("speed without tuning over speed with it, {} of {} products tuned in {:.1f} s: {:.3f}".format(*untuned))
    wrong = [found["workload"] for found in results if found.get("right") is False]
    print(f"{len(results)} rows in {time.perf_counter() - began:.0f} s, {len(wrong)} wrong{': ' + '; '.join(wrong) if wrong else ''}")
    if options.json:
        head = {
            "device": device.name,
            "driver": "of CUDA {}.{}".format(*driver().version),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "date": datetime.date.today().isoformat(),
            "command": "python -m bench.gpu",
            "rounds": options.rounds,
            "without_tuning": None if untuned is None else dict(zip(("tuned", "products", "seconds", "speed"), untuned, strict=True)),
            "limits": None if limits is None else {"bytes": limits.bytes, "operations": dict(limits.operations)},
        }
        options.json.write_text(json.dumps(head | {"rows": results}, indent=1) + "\n")


def line(found: Mapping[str, Any]) -> str:
    """A row's figures, for a terminal."""
    name = f"{found['workload']:60}"
    others = ", ".join(f"{peer} {passed:.4f}" for peer, passed in found.get("peers_ms", {}).items() if peer != found.get("best_peer"))
    absent = "".join(f"  [{peer}: {reason[:60]}]" for peer, reason in found.get("absent", {}).items())
    if "failed" in found:
        return f"{name} {found['failed']}{absent}"
    against = f"{found['best_peer']} {found['peer_ms']:.4f}  ratio {found['ratio']:.3f}" if "ratio" in found else "no peer"
    against += f"  ({others})" if others else ""
    goal = f" of {found['goal']}" if found.get("goal") else ""
    share = f"  {100 * found['share_of_limit']:.0f} % of {found['bound']}" if "share_of_limit" in found else ""
    error = f"  error {found['error']:.1e}{'' if found['right'] else ' WRONG'}" if "error" in found else ""
    error += f" (peer's {found['peer_error']:.1e})" if "peer_error" in found else ""
    host = "  host us: " + ", ".join(f"{who} {passed:.1f}" for who, passed in found["host_us"].items()) if "host_us" in found else ""
    rate = f"{found['rate']:.4g} {found['unit']}"
    rate += f"  tuned in {found['tuning_s']:.2f} s" if "tuning_s" in found else ""
    rate += f", else {found['untuned_ms']:.4f} ms" if "untuned_ms" in found else ""
    return f"{name} {found['ours_ms']:.4f} ms  {against}{goal}  {rate}{share}{error}  first {found['first_call_s']:.2f} s{host}{absent}"


def means(results: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, int]]:
    """The geometric mean of the ratios of each group, and of how many rows."""
    groups: dict[str, list[float]] = {}
    for found in results:
        if found.get("group") and "ratio" in found:
            groups.setdefault(found["group"], []).append(found["ratio"])
    return {group: (math.exp(sum(map(math.log, ratios)) / len(ratios)), len(ratios)) for group, ratios in groups.items()}


def without_tuning(results: Sequence[Mapping[str, Any]]) -> tuple[int, int, float, float] | None:
    """Of products and convolutions: how many were tuned, of how many, in how many seconds, and the geometric mean of the speed without
    over that with it, where 1 counts for those of which the model's choice stands; None where none was tuned."""
    products = [found for found in results if found["kind"] in ("products", "convolutions") and "ours_ms" in found]
    tuned = [found for found in products if "tuning_s" in found]
    if not tuned:
        return None
    mean = math.exp(sum(math.log(found.get("speed_without_tuning", 1.0)) for found in products) / len(products))
    return len(tuned), len(products), sum(found["tuning_s"] for found in tuned), mean


if __name__ == "__main__":
    main()
