"""What commands do with ImagePipe's programs: stages, devices, the sanitizer, launches; Python."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from compiler.launch.native_calls.watch import CPU_LAUNCHES
from compiler.options import CompileOptions
from compiler.source import Source, Sources
from imagepipe import language
from tests.imagepipe.conftest import Zyntax
from tests.imagepipe.reference import blur, brighten, contrast, crop, flip, grayscale, invert, resize, rotate

Done = Callable[..., str]

ROOT = Path(__file__).parents[2]
PHOTO = ROOT / "programs" / "imagepipe" / "photo.imgpipe"

POINTS = """load "small.png" as a
brighten a by 10.5
contrast a by 12
grayscale a
invert a
brighten a by -20
save a as "points.png"
"""
REST = """load "small.png" as a
blur a by 0.7
resize a to 20x7
rotate a 90
rotate a 270
rotate a 180
flip a horizontal
flip a vertical
crop a from 1,2 to 6,7
save a as "rest.png"
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(4).integers(0, 256, (9, 13, 3)).astype(np.uint8)
    Image.fromarray(pixels).save("small.png")
    Path("points.imgpipe").write_text(POINTS)
    Path("rest.ip").write_text(REST)
    return pixels


@pytest.fixture
def done(zyntax: Zyntax) -> Done:
    """The output of a command that goes well."""

    def run(*arguments: str) -> str:
        code, out, err = zyntax(*arguments)
        assert code == 0, err
        return out

    return run


def near(file: str, want: np.ndarray) -> bool:
    """A byte that f32 rounds the other way is one more or less."""
    found = np.asarray(Image.open(file)).astype(int)
    return found.shape == want.shape and np.abs(found - want).max() <= 1


def points(x: np.ndarray) -> np.ndarray:
    return brighten(invert(grayscale(contrast(brighten(x, 10.5), 12))), -20)


@pytest.mark.parametrize("how", [(), ("--device", "emulator"), ("--sanitize",), ("--device", "emulator:sm_90a"), ("-O", "0")], ids=" ".join)
def test_pictures_are_the_same_on_every_device(how: tuple[str, ...], small: np.ndarray, done: Done) -> None:
    done("run", "points.imgpipe", *how)
    done("run", "rest.ip", *how)
    assert near("points.png", points(small))
    assert near("rest.png", crop(rotate(flip(flip(rotate(resize(blur(small, 0.7), 20, 7), 0), "horizontal"), "vertical"), 180), 1, 2, 6, 7))


def test_a_chain_of_point_operations_is_one_launch_on_the_cpu(small: np.ndarray, done: Done) -> None:
    with CPU_LAUNCHES.watched() as found:
        done("run", "points.imgpipe")
    assert len(found) == 1


def test_a_chain_of_point_operations_is_one_launch_on_the_emulator(small: np.ndarray) -> None:
    launched: list[object] = []
    options = CompileOptions(device="emulator", launched=launched.append)
    language.open(Source("points.imgpipe", POINTS), options, Sources(), lambda warning: None).run()
    assert len(launched) == 1
    assert near("points.png", points(small))


def test_operations_between_saves_are_seen(small: np.ndarray, done: Done) -> None:
    """What is saved between two operations is what the first of them made; one picture doesn't end another's chain."""
    text = """load "small.png" as a
load "small.png" as b
brighten a by 10
invert b
save a as "first.png"
invert a
contrast b by 20
save a as "a.png"
save b as "b.png"
"""
    Path("p.ip").write_text(text)
    done("run", "p.ip")
    assert near("first.png", brighten(small, 10)) and near("a.png", invert(brighten(small, 10))) and near("b.png", contrast(invert(small), 20))


@pytest.mark.parametrize("channels", [1, 4])
def test_grey_pictures_and_opacity(channels: int, small: np.ndarray, done: Done) -> None:
    pixels = np.random.default_rng(channels).integers(0, 256, (5, 6, channels)).astype(np.uint8)
    Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels).save("small.png")
    done("run", "points.imgpipe")
    if channels == 1:
        assert near("points.png", brighten(invert(contrast(brighten(pixels, 10.5), 12)), -20)[:, :, 0])
    else:
        assert near("points.png", np.concatenate([points(pixels[:, :, :3]), pixels[:, :, 3:]], axis=2))
    Path("p.ip").write_text('load "small.png" as a\nsave a as "a.jpg"\n')
    done("run", "p.ip")
    assert Image.open("a.jpg").mode == ("L" if channels == 1 else "RGB")


def test_a_picture_of_16_bits(small: np.ndarray, done: Done) -> None:
    deep = np.array([[0, 128, 129, 65535], [257, 386, 32896, 33000]], np.uint16)
    Image.fromarray(deep).save("small.png")
    Path("p.ip").write_text('load "small.png" as a\nsave a as "a.png"\n')
    done("run", "p.ip")
    assert np.array_equal(np.asarray(Image.open("a.png")), (deep.astype(int) + 128) // 257)


def test_stages(done: Done) -> None:
    tree = json.loads(done("compile", str(PHOTO), "--emit", "ast"))
    assert tree["is"] == "Program" and len(tree["statements"]) == 8
    assert "one kernel" in done("compile", str(PHOTO), "--emit", "fusion")
    hir = done("compile", str(PHOTO), "--emit", "hir")
    assert hir.startswith("module @photo version=1 {") and "@call_line7(" in hir
    ptx = done("compile", str(PHOTO), "--backend", "nvptx", "--emit", "ptx")
    assert ".visible .entry call_line7_0(" in ptx
    assert "@call_line7" in done("compile", str(PHOTO), "--emit", "schedule")
    done("check", str(PHOTO))


def test_it_is_opened_from_python(small: np.ndarray) -> None:
    program = language.compile(POINTS)
    program.run()
    assert near("points.png", points(small))


def test_the_compiler_does_not_know_it() -> None:
    known = subprocess.run(["git", "grep", "-il", "imagepipe", "--", "compiler", "runtime", "grammars/*.py", "zyntax", "zynml"],
                           cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    assert known.stdout == ""


def test_it_imports_zyntax_alone() -> None:
    code = "import imagepipe, sys; print([name for name in sys.modules if name.partition('.')[0] in ('numpy', 'lark', 'llvmlite')])"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
