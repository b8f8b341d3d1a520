"""Tables of a grammar: made by Lark, kept as JSON, remade when anything about them is wrong."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from grammars import loader
from grammars.grammar import Grammar
from imagepipe import language
from zynml.grammar import GRAMMAR

SMALL = language.grammar
"""Its tables are made in a moment."""

# Shift is right for each of these. A list in a one-line block goes on (`if c: x = 1`, `else` belongs to the nearest `if`), and
# optional parts are taken when they stand there.
KNOWN_CONFLICTS = Path(__file__).with_name("conflicts.txt")


def test_tables_survive_json() -> None:
    data = loader.build(GRAMMAR)
    assert json.loads(json.dumps(data)) == data


def test_tables_are_the_same_bytes_each_time() -> None:
    script = "import json, hashlib; from grammars.loader import build; from zynml.grammar import GRAMMAR; print(hashlib.md5(json.dumps(build(GRAMMAR)).encode()).hexdigest())"
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


def test_shift_reduce_conflicts_are_the_known_ones() -> None:
    found = [f"{terminal}: {rule}" for terminal, rule in loader.conflicts(GRAMMAR)]
    known = KNOWN_CONFLICTS.read_text(encoding="utf-8").splitlines()
    assert Counter(found) == Counter(known)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a cache with the tables."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZYNTAX_CACHE_DIR", str(folder))
        patch.setattr(loader, "_SHIPPED", folder / "shipped")
        loader.load.cache_clear()
        loader.load(SMALL)
        loader.load.cache_clear()
    (file,) = (folder / "grammars").iterdir()
    return file


def test_states_that_were_changed_are_not_read(kept: Path) -> None:
    data = json.loads(kept.read_bytes())
    assert loader._read(kept, data["key"]) is not None
    kept.with_name("changed").write_text(json.dumps(data | {"states": data["states"].replace("1", "2", 1)}))
    assert loader._read(kept.with_name("changed"), data["key"]) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": "x"}', "null", "[" * 100_000])
def test_a_damaged_cache_is_made_anew(damage: str, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loader, "_SHIPPED", tmp_path / "shipped")
    file, whole = tmp_path / "grammars" / kept.name, kept.read_bytes()
    file.parent.mkdir()
    file.write_text(damage)
    loader.load.cache_clear()
    loader.load(SMALL)
    assert file.read_bytes() == whole
    assert [path.name for path in (tmp_path / "grammars").iterdir()] == [file.name]
    loader.load.cache_clear()


def test_one_text_has_tables_for_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    (tmp_path / "g.lark").write_text('a: "x" b\nb: "y"\n')
    for start in ("a", "b", "a"):
        grammar = Grammar("g", (tmp_path / "g.lark",), starts=(start,), layout=False)
        assert [*loader.load(grammar).starts] == [start]


def test_a_cache_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(loader, "_SHIPPED", tmp_path / "shipped")
    loader.load.cache_clear()
    assert loader.load(SMALL).rules
    loader.load.cache_clear()


def test_lark_is_not_imported_once_the_tables_exist() -> None:
    loader.load(GRAMMAR)
    script = "import sys; from grammars.loader import load; from zynml.grammar import GRAMMAR; load(GRAMMAR); print('lark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_killed_and_failed_writers_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zynml.json"
    for name in ("zynml.json.x.part", "another.json.x.part"):
        (tmp_path / name).write_text("half", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "replace", full)
        loader._write(path, {"key": "k"})
    assert [p.name for p in tmp_path.iterdir()] == ["another.json.x.part"]
    loader._write(path, {"key": "k"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["another.json.x.part", "zynml.json"]
