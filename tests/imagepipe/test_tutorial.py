"""The page's tutorial, followed in a copy of the package: `sharpen a by 1.0` by a line of the grammar, an action and a kernel."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[2]


def followed(folder: Path) -> None:
    """A copy of the package in the folder, with what the page says put where it says."""
    package = folder / "imagepipe"
    shutil.copytree(ROOT / "imagepipe", package, ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs" / "imagepipe.md").read_text(encoding="utf-8").partition("## Add an operation")[2]
    parts = dict(re.findall(r"^```(lark|py|zynml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert len(parts) == 3 and len(parts["lark"].splitlines()) == 1
    for name, before, part in (
        ("imagepipe.lark", "     | NAME (NAME ", parts["lark"]),
        ("__init__.py", "    def unknown(", parts["py"] + "\n"),
        ("kernels.zynml", "// ---- places", parts["zynml"] + "\n"),
    ):
        text = (package / name).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (package / name).write_text(text.replace(before, part + before), encoding="utf-8")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, "-m", "zyntax", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_sharpen(tmp_path: Path) -> None:
    followed(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    (tmp_path / "p.ip").write_text('load "in.png" as a\nsharpen a by 1.0\nsave a as "out.png"\n')
    padded = np.pad(pixels.astype(np.float64), ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = sum(padded[v : v + 6, u : u + 8] for v in range(3) for u in range(3)) / 9
    want = np.clip(np.rint(2 * pixels.astype(np.float64) - around), 0, 255)
    for device in ("cpu", "emulator"):
        done = run(tmp_path, "run", "p.ip", "--device", device)
        assert done.returncode == 0, done.stderr
        assert np.abs(np.asarray(Image.open(tmp_path / "out.png")) - want).max() <= 1, "f32 may round the other way"
    (tmp_path / "q.ip").write_text('load "in.png" as a\nsharpn a by 1.0\n')
    assert "did you mean `sharpen`?" in run(tmp_path, "check", "q.ip").stderr
