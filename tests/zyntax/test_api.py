"""`zyntax` as a package: every public name of both languages, and none of it loaded before it is used."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quantdsl
import zynml
import zyntax

SCALE = "def scale(x: tensor[N], by: f32): tensor {\n    compute(x, by) { for i in 0..N: out[i] = x[i] * by }\n}\n"


@pytest.mark.parametrize("language", [zynml, quantdsl])
def test_every_public_name_is_a_name_of_zyntax(language: object) -> None:
    names = language.__all__  # type: ignore[attr-defined]
    assert set(names) <= set(zyntax.__all__) <= set(dir(zyntax))
    for name in names:
        own = getattr(language, name)
        assert name == "compile" or getattr(zyntax, name) is own
        assert getattr(getattr(zyntax, language.__name__), name) is own  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", ["zynml", "quantdsl", "zyntax", "zyntax.zynml", "zyntax.quantdsl"])
def test_what_dir_lists_is_there(module: str) -> None:
    package = importlib.import_module(module)
    assert set(package.__all__) <= set(dir(package))
    assert all(hasattr(package, name) for name in dir(package))
    with pytest.raises(AttributeError, match=r"module `\w+` has no `nothing`"):
        _ = package.nothing


def test_compile_takes_both_languages(tmp_path: Path) -> None:
    assert zyntax.compile(SCALE).scale(np.ones(3, np.float32), 2.0).tolist() == [2.0, 2.0, 2.0]
    (tmp_path / "scale.zynml").write_text(SCALE, encoding="utf-8")
    assert isinstance(zyntax.compile(tmp_path / "scale.zynml", opt="1"), zyntax.CompiledProgram)
    (tmp_path / "wrong.qdsl").write_text("strategy {", encoding="utf-8")
    for path in (tmp_path / "wrong.qdsl", str(tmp_path / "wrong.qdsl")):
        with pytest.raises(zyntax.QuantError):
            zyntax.compile(path)
    with pytest.raises(zyntax.ZynMLError):
        zyntax.compile("let x = nothing.qdsl\n")


def test_nothing_is_loaded_before_it_is_used() -> None:
    script = "import json, sys, zyntax; print(json.dumps([*sys.modules])); zyntax.Future; print('runtime.futures' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, used = done.stdout.splitlines()
    ours = {name for name in json.loads(loaded) if name.partition(".")[0] in (*zyntax_packages(), "numpy", "click", "llvmlite")}
    assert ours == {"zyntax", "zyntax_lang"} and used == "True"


def zyntax_packages() -> tuple[str, ...]:
    from zyntax_lang import PACKAGES

    return (*PACKAGES, "zyntax_lang")
