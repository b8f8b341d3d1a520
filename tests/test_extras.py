"""A core installation: what needs a package of an extra says which, by a code and a command; all else works. Packages are hidden here from the
importing process; `test_wheel.py` installs a core for real."""

import os
import re
import struct
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import extras
from runtime.extras import DISTRIBUTION, PackageMissing, install, required

ROOT = Path(__file__).parent.parent
CROSS = ROOT / "programs" / "quantdsl" / "ema_cross.qdsl"
ROWS = "ts,price,qty,side\n" + "".join(f"{1723111200000 + 250 * i},{62000 + i % 7 * 10}.00,0.01000,{'buy' if i % 2 else 'sell'}\n" for i in range(50))
DATED = ROWS.splitlines()[0] + "\n2024-08-08T10:00:00Z,62000.00,0.01000,buy\n"

HIDDEN = """
import sys
for package in {packages!r}:
    sys.modules[package] = None
"""

Hidden = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the tests, so that the strategy is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def hidden(tmp_path: Path, cache: Path) -> Hidden:
    """Runs Python, in a folder with data, where these packages can't be imported."""
    (tmp_path / "trades.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "dated.csv").write_text(DATED, encoding="utf-8")
    (tmp_path / "trades.parquet").write_bytes(b"PAR1")
    (tmp_path / "trades.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    (tmp_path / "grey.png").write_bytes(png())

    def run(packages: tuple[str, ...], script: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ZYNTAX_CACHE_DIR": str(cache)}
        command = [sys.executable, "-c", HIDDEN.format(packages=packages) + script]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=240)

    return run


def png() -> bytes:
    """A grey picture of one pixel, by the format's specification."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")


def zyntax(*arguments: str) -> str:
    return f"from zyntax.main import main\nmain({list(arguments)!r})\n"


def absent(package: str, called: str = "") -> str:
    return f"the package `{called or package}` can't be imported (import of {package} halted; None in sys.modules)"


DATA, PICTURES = "pip install 'zyntax-lang[data]'", "pip install 'zyntax-lang[pictures]'"
CORE = ("pyarrow", "matplotlib", "PIL", "tzdata")


# ---- kernels and the command ----


def test_kernels_need_none_of_them(hidden: Hidden) -> None:
    script = """
import numpy as np, zyntax
p = zyntax.compile("def scale(x: tensor[N], by: f32): tensor {\\n compute(x, by) { for i in 0..N: out[i] = x[i] * by }\\n}\\n")
print(p.scale(np.ones(3, np.float32), 2.0))
"""
    done = hidden(CORE, script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2. 2. 2.]\n", "")


@pytest.mark.parametrize(
    ("program", "package", "called", "path", "column"),
    [
        ('let a = 1\nlet t = load("grey.png")\n', "PIL", "pillow", "grey.png", 9),
        ('let t = zeros(2, 2)\nsave("new.png", t)\n', "PIL", "pillow", "new.png", 1),
        ('let t = zeros(2, 2)\nrender t { file: "i.png" }\n', "PIL", "pillow", "out/i.png", 1),
        ('let t = zeros(4)\nrender t { file: "c.png" }\n', "matplotlib", "", "out/c.png", 1),
        ('let t = zeros(2, 2)\nrender t { file: "h.png", form: "heatmap" }\n', "matplotlib", "", "out/h.png", 1),
    ],
)
def test_pictures_of_programs(hidden: Hidden, tmp_path: Path, program: str, package: str, called: str, path: str, column: int) -> None:
    (tmp_path / "p.zynml").write_text(program, encoding="utf-8")
    done = hidden((package,), zyntax("run", "p.zynml"))
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert lines[0] == f"error[ZYN0506]: `{path}`: {absent(package, called)}"
    assert lines[1] == f" --> p.zynml:2:{column}" and lines[-1] == f"hint: {PICTURES}" and len(lines) == 6


# ---- replays ----


def test_a_replay_that_writes_nothing_needs_none(hidden: Hidden) -> None:
    done = hidden(CORE, zyntax("run", str(CROSS), "--data", "trades.csv"))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("rows ")


def test_png_files_of_a_replay(hidden: Hidden, tmp_path: Path) -> None:
    """Asked for and impossible: nothing is read or written. The report's charts need no package."""
    command = ("run", str(CROSS), "--data", "trades.csv", "--out", "out")
    done = hidden(("PIL",), zyntax(*command, "--png"))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error[ZYN0506]: {absent('PIL', 'pillow')}\nhint: {PICTURES}\n")
    assert not (tmp_path / "out").exists()
    done = hidden(("PIL", "matplotlib"), zyntax(*command))
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "out" / "report.html").read_text().count("<svg") == 6


REPLAYS = {
    "tables": ("run", str(CROSS), "--data", "trades.csv", "--out", "out"),
    "Parquet": ("run", str(CROSS), "--data", "trades.parquet"),
    "zstd": ("run", str(CROSS), "--data", "trades.csv.zst"),
    "dates": ("run", str(CROSS), "--data", "dated.csv"),
    "a moment": ("run", str(CROSS), "--data", "trades.csv", "--from", "2024-08-08T10:00:00"),
    "a measurement": ("bench", str(CROSS), "--data", "dated.csv"),
}


@pytest.mark.parametrize("what", REPLAYS)
def test_tables_of_replays(hidden: Hidden, tmp_path: Path, what: str) -> None:
    done = hidden(("pyarrow",), zyntax(*REPLAYS[what]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error[ZYN0506]: {absent('pyarrow')}\nhint: {DATA}\n"
    assert not (tmp_path / "out").exists(), "what can't be written is said before anything is"


def test_python_gets_an_error_of_the_language(hidden: Hidden) -> None:
    script = f"""
import quantdsl
program = quantdsl.compile({str(CROSS)!r})
result = program.run("trades.csv")
print(len(result.records("fills")))
for call in (lambda: result.table("fills"), lambda: program.run({{"ts": [1]}}), lambda: program.run("trades.csv", out="out")):
    try:
        call()
    except quantdsl.QuantError as error:
        print(error.codes, error.bad_data, error)
"""
    done = hidden(("pyarrow",), script)
    assert done.stderr == ""
    first, *errors = done.stdout.splitlines()
    assert first.isdecimal()
    assert errors == [f"('ZYN0506',) False error[ZYN0506]: {absent('pyarrow')}", f"hint: {DATA}"] * 3


# ---- the extras themselves ----


def test_a_package_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    with pytest.raises(PackageMissing) as missing:
        required("tzdata")
    assert (str(missing.value), missing.value.hint, missing.value.name) == (absent("tzdata"), DATA, "tzdata")
    assert required("pyarrow.parquet") is sys.modules["pyarrow.parquet"]


def test_every_package_is_in_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]
    assert project["name"] == DISTRIBUTION == "zyntax-lang" and project["scripts"].keys() == {"zyntax"}
    core = {re.split("[>=<]", name)[0] for name in project["dependencies"]}
    for package, name in extras._EXTRAS.items():
        distribution = extras._CALLED.get(package, package)
        assert any(entry.startswith(distribution) for entry in extra[name]) and distribution not in core
        assert install(name) == f"pip install '{DISTRIBUTION}[{name}]'"
    everything = " ".join(extra["all"])
    assert "data,pictures" in everything and "sass" in everything and f"{DISTRIBUTION}[compute]" in extra["sass"]
    assert f"{DISTRIBUTION}[all]" in extra["test"] and f"{DISTRIBUTION}[test]" in extra["dev"]


def test_nobody_is_sent_to_another_distribution() -> None:
    """`zyntax` is somebody else's name in the public index."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py"))]
    wrong = re.compile(r"pip install (--\S+ )*['\"]?zyntax(?!-lang)|\bzyntax\[")
    assert [str(path) for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


PACKAGES = ("compiler", "grammars", "imagepipe", "quantdsl", "runtime", "zynml", "zyntax")


def test_the_readme_installs_everything() -> None:
    commands = re.findall(r"pip install --quiet (?:--editable )?'\.\[(\w+)\]'", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert commands == ["all", "test"]
