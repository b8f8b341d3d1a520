"""The hook that the building of wheels runs: what it carries, and where from."""

import shutil
from pathlib import Path

import pytest

import hatch_build
from grammars import loader
from runtime.cache.contents import PACKAGES, WRITTEN

ROOT = Path(__file__).parent.parent


def carried(root: Path, monkeypatch: pytest.MonkeyPatch, version: str = "standard") -> dict[str, str]:
    """What a build of this tree would carry besides its packages: texts by their path in the wheel."""
    monkeypatch.setattr(loader, "ship", lambda: None)
    data: dict[str, dict[str, str]] = {"force_include": {}}
    hook = hatch_build.CarriedFilesHook(str(root), {}, None, None, "", "wheel")
    hook.initialize(version, data)
    texts = {target: Path(source).read_text(encoding="utf-8") for source, target in data["force_include"].items()}
    hook.finalize(version, data, "")
    assert hook.made is None or not hook.made.exists(), "nothing is left behind"
    return texts


def copied(root: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_wheels_of_equal_contents_have_one_hash_and_a_changed_line_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (carried(copied(tmp_path / name), monkeypatch)[f"runtime/cache/{WRITTEN}"] for name in ("a", "b"))
    assert first == second and len(first) == 64
    file = tmp_path / "b" / "compiler" / "passes" / "pipelines.py"
    file.write_text(file.read_text(encoding="utf-8").replace("\n", "  # a comment\n", 1), encoding="utf-8")
    assert carried(tmp_path / "b", monkeypatch)[f"runtime/cache/{WRITTEN}"] != first


def test_an_editable_installation_carries_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copied(tmp_path / "a")
    assert carried(root, monkeypatch, "editable") == {}
    assert not [*root.rglob(WRITTEN)], "the hash of a checkout is computed from its files"
