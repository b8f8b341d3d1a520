"""Files in and out, good and bad; pictures and charts."""

import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from compiler.typed_ast.library import LibraryFault
from runtime.element_types import DTYPES
from runtime.tensor import Tensor
from zynml.stdlib import StdlibSettings, library
from zynml.stdlib.render import render

pytestmark = pytest.mark.usefixtures("call")


@pytest.mark.parametrize("dtype", [name for name in DTYPES if not name.startswith("f8")])
@pytest.mark.parametrize("name", ["a.npy", "new/folder/a.npz"])
def test_arrays_come_back_as_they_went(call: Any, name: str, dtype: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(DTYPES[dtype]).T
    call("save", name, Tensor(array))
    found = call("load", name)
    assert found.dtype_name == dtype and np.array_equal(found.array, array)


@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2"])
def test_eighths_have_no_name_in_files(call: Any, dtype: str) -> None:
    said = f"`a.npy`: saving elements of {dtype} is valid, but not supported yet"
    assert call.fault("save", "a.npy", Tensor(np.zeros(3, DTYPES[dtype]))) == ("0109", said)


def test_fortran_order_and_byte_order_are_understood(call: Any) -> None:
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    np.save("f.npy", array)
    assert np.array_equal(call("load", "f.npy").array, array)
    assert call("load", "f.npy").dtype_name == "f32"
    assert call("load", "f.npy", dtype="i16").dtype_name == "i16"
    np.save("empty.npy", np.zeros((0, 3)))
    assert call("load", "empty.npy").shape == (0, 3)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([1, "a", None], dtype=object), "it holds Python objects, which are never loaded"),
        (np.array(None, dtype=object), "it holds Python objects, which are never loaded"),
        (np.array(["2020-01-01"], "M8[D]"), "elements of type datetime64[D] have no counterpart here"),
        (np.array(["2020-01-01"], "M8[25ns]"), "elements of type datetime64[25ns] have no counterpart here"),
        (np.zeros(2, "M8"), "elements of type datetime64 have no counterpart here"),
        (np.zeros((2, 3), "m8[s]"), "elements of type timedelta64[s] have no counterpart here"),
        (np.zeros(2, "c16"), "elements of type complex128 have no counterpart here"),
        (np.array(["ab"]), "elements of type <U2 have no counterpart here"),
        (np.array([b"ab"]), "elements of type |S2 have no counterpart here"),
        (np.zeros(2, "V0"), "elements of type |V0 have no counterpart here"),
        (np.zeros(2, "V4"), "elements of type |V4 have no counterpart here"),
        (np.zeros(2, [("a", "i4"), ("b", "O")]), "its elements are records, which have no counterpart here"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.dtype.kind,
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_elements_that_programs_do_not_have_are_named(call: Any, array: Any, reason: str, version: tuple[int, int]) -> None:
    with Path("x.npy").open("wb") as stream:
        np.lib.format.write_array(stream, array, version)
    assert call.fault("load", "x.npy") == ("0807", f"`x.npy`: {reason}")
    np.savez("x.npz", a=np.zeros(2), b=array)
    assert call.fault("load", "x.npz", "b") == ("0807", f"`x.npz`: {reason}")
    assert call("load", "x.npz", "a").shape == (2,)


def test_damage_inside_of_every_packing_is_a_fault(call: Any) -> None:
    np.save("x.npy", np.arange(100))
    for packing in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile("x.npz", "w", packing) as archive:
            archive.write("x.npy", "a.npy")
        whole = Path("x.npz").read_bytes()
        for at in range(0, len(whole), 3):
            Path("x.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
            try:
                call("load", "x.npz")
            except LibraryFault as fault:
                assert fault.code in ("0807", "0804")


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n", "\r\r\n"])
def test_lines_of_a_table_end_as_they_like(call: Any, end: str) -> None:
    Path("x.csv").write_bytes(end.join(["a,b", "1,2", "3,4", ""]).encode())
    assert call("load", "x.csv").array.tolist() == [[1, 2], [3, 4]]


def test_npz_by_key(call: Any) -> None:
    np.savez("two.npz", a=np.arange(3), b=np.ones(2))
    assert call("load", "two.npz", "b").array.tolist() == [1, 1]
    assert call.fault("load", "two.npz") == ("0807", "`two.npz`: it has 2 arrays; name one")
    assert call.fault("load", "two.npz", "c") == ("0807", "`two.npz`: it has no array `c`")
    call("save", "pairs.npz", [("x", Tensor(np.arange(2))), ("y", Tensor(np.zeros(1)))])
    assert call("load", "pairs.npz", "x").array.tolist() == [0, 1]
    assert call.fault("load", "a.npy", "k") == ("0204", "a key is for npz and safetensors files, and `a.npy` is npy")


def test_csv_with_and_without_a_header(call: Any) -> None:
    Path("h.csv").write_text("x, y\n1,2.5\n\n-3e1,nan\n")
    found = call("load", "h.csv")
    assert found.dtype_name == "f32"
    assert np.array_equal(found.array, np.array([[1, 2.5], [-30, np.nan]], np.float32), equal_nan=True)
    assert call("load", "h.csv", columns=["y"]).array.shape == (2, 1)
    assert call("load", "h.csv", columns=[-1, 0]).array[0].tolist() == [2.5, 1]
    Path("n.csv").write_text("1,2\n3,4\n")
    assert call("load", "n.csv", dtype="i64").array.tolist() == [[1, 2], [3, 4]]
    assert call("load", "n.csv", header=True).array.tolist() == [[3, 4]]
    Path("t.tsv").write_text("1\t2\n")
    assert call("load", "t.tsv").array.tolist() == [[1, 2]]
    Path("s.csv").write_text('"a;b";c\n1;2\n')
    assert call("load", "s.csv", delimiter=";").array.tolist() == [[1, 2]]
    Path("bom.csv").write_bytes(b"\xef\xbb\xbf1,2\r\n3,4\r\n")
    assert call("load", "bom.csv").array.tolist() == [[1, 2], [3, 4]]
    Path("empty.csv").write_text("")
    assert call("load", "empty.csv").shape == (0, 0)
    Path("head.csv").write_text("a,b,c\n")
    assert call("load", "head.csv").shape == (0, 3)
    Path("big.csv").write_text(f"{2**63 - 1}\n")
    assert call("load", "big.csv", dtype="i64").array[0, 0] == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1,2\n3\n", {}, "row 2 has 1 cells, and the rows before it have 2"),
        ("a,b\n1,2\n\n3,x\n", {}, 'row 4, column 2 is "x", which is no number'),
        ("1,2\n3,\n", {}, "row 2, column 2 is empty"),
        ("1,2\n1_0,2\n", {}, 'row 2, column 1 is "1_0", which is no number'),
        ("1.5\n", {"dtype": "i64"}, 'row 1, column 1 is "1.5", which is no i64'),
        ("300\n", {"dtype": "u8"}, 'row 1, column 1 is "300", which is no u8'),
        ("a,b\n1,2\n", {"columns": ["c"]}, 'it has no column "c"'),
        ("1,2\n", {"columns": ["a"]}, 'it has no header, so there is no column "a"'),
        ("1,2\n", {"columns": [2]}, "it has no column 2: there are 2"),
        ('1,"2\n', {}, "row 1 is no csv: unexpected end of data"),
    ],
)
def test_malformed_tables_name_the_row(call: Any, text: str, options: dict[str, Any], message: str) -> None:
    Path("bad.csv").write_text(text)
    assert call.fault("load", "bad.csv", **options) == ("0807", f"`bad.csv`: {message}")


@pytest.mark.parametrize(
    ("first", "cell"),
    [
        ("1,,3", "column 2 is empty"),
        (",,", "column 1 is empty"),
        ("0x1F,2,3", 'column 1 is "0x1F", which is no number'),
        ("-0x1p-3,2,3", 'column 1 is "-0x1p-3", which is no number'),
        ("1_000,2,3", 'column 1 is "1_000", which is no number'),
        ("1,-,3", 'column 2 is "-", which is no number'),
        ("-,-,-", 'column 1 is "-", which is no number'),
        ("12%,.5x,$3", 'column 1 is "12%", which is no number'),
        ("2024-08-08,10:30,1.2.3", 'column 1 is "2024-08-08", which is no number'),
        ("a,b,3", 'column 1 is "a", which is no number'),
        (",a,b", "column 1 is empty"),
    ],
)
def test_a_first_row_that_is_not_all_text_is_data(call: Any, first: str, cell: str) -> None:
    Path("first.csv").write_text(f"{first}\n4,5,6\n")
    assert call.fault("load", "first.csv") == ("0807", f"`first.csv`: row 1, {cell}")
    assert call("load", "first.csv", header=True).array.tolist() == [[4, 5, 6]]


@pytest.mark.parametrize("first", ["1e5,nan,-inf", '"1e5"," nan","-INF"', "\ufeff1E+05, NaN ,-Infinity", "\ufeff\"1e5\",nan,-inf"])
def test_numbers_of_all_kinds_in_the_first_row_are_numbers(call: Any, first: str) -> None:
    Path("first.csv").write_text(f"{first}\n4,5,6\n", encoding="utf-8")
    wanted = np.array([[1e5, np.nan, -np.inf], [4, 5, 6]], np.float32)
    assert np.array_equal(call("load", "first.csv").array, wanted, equal_nan=True)


@pytest.mark.parametrize("first", ["a,b,c", '"price, USD",_x,%change', " #id,ts (ns),é", "\ufeffinfo,Nancy,e5"])
def test_a_first_row_of_text_is_a_header(call: Any, first: str) -> None:
    Path("first.csv").write_text(f"{first}\n4,5,6\n", encoding="utf-8")
    assert call("load", "first.csv").array.tolist() == [[4, 5, 6]]


def test_columns_of_text_beside_those_wanted_make_no_header(call: Any) -> None:
    Path("flowers.csv").write_text("setosa,5.1,3.5\nsetosa,4.9,3\n")
    assert call("load", "flowers.csv", columns=[1, 2], dtype="f64").array.tolist() == [[5.1, 3.5], [4.9, 3.0]]


def test_csv_round_trip_keeps_every_bit(call: Any) -> None:
    array = np.frombuffer(np.random.default_rng(3).bytes(4 * 60), np.float32).reshape(20, 3)
    call("save", "r.csv", Tensor(array), header=["a", "b", "c"])
    assert np.array_equal(call("load", "r.csv").array, array, equal_nan=True)
    call("save", "v.csv", Tensor(np.arange(3)))
    assert Path("v.csv").read_text() == "0\n1\n2\n"
    assert call.fault("save", "c.csv", Tensor(np.zeros((1, 1, 1))))[0] == "0301"


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 1), (3, 5, 3), (3, 5, 4)])
def test_pictures_come_back(call: Any, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    call("save", "p.png", Tensor(pixels))
    assert np.array_equal(call("load", "p.png").array, pixels[..., 0] if shape[2:] == (1,) else pixels)


def test_floats_and_bools_become_pixels(call: Any) -> None:
    call("save", "f.png", Tensor(np.array([[0.0, 0.5, 1.0, 2.0, -1.0, np.nan]], np.float32)))
    assert call("load", "f.png").array.tolist() == [[0, 128, 255, 255, 0, 0]]
    call("save", "b.png", Tensor(np.array([[True, False]])))
    assert call("load", "b.png").array.tolist() == [[255, 0]]
    call("save", "h.png", Tensor(np.array([[1.0]], ml_dtypes.bfloat16)))
    assert call("load", "h.png").array.tolist() == [[255]]
    assert call.fault("save", "i.png", Tensor(np.array([[300]]))) == ("0807", "`i.png`: a pixel is 300, outside 0 to 255")
    assert call.fault("save", "i.png", Tensor(np.zeros((2, 2, 2)))) == (
        "0301",
        "`i.png`: a picture has shape [H, W] or [H, W, C] with C = 1, 3 or 4, not [2, 2, 2]",
    )


def test_palettes_and_deep_greys_are_understood(call: Any) -> None:
    Image.fromarray(np.array([[0, 65535]], np.uint16)).save("deep.png")
    assert call("load", "deep.png").dtype_name == "u16" and call("load", "deep.png").array.tolist() == [[0, 65535]]
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).convert("P").save("palette.png")
    assert call("load", "palette.png").shape == (2, 2, 3)


DAMAGED = {
    "npy": "this is no npy file, or a damaged one",
    "npz": "this is no npz file, or a damaged one",
    "png": "this is no picture in its format, or a damaged one",
    "csv": "this is no text in UTF-8",
}


@pytest.mark.parametrize("kind", list(DAMAGED))
def test_binary_rubbish_is_refused(call: Any, kind: str) -> None:
    Path(f"x.{kind}").write_bytes(bytes(range(256)))
    assert call.fault("load", f"x.{kind}") == ("0807", f"`x.{kind}`: {DAMAGED[kind]}")


@pytest.mark.parametrize("kind", ["npy", "npz", "png"])
def test_no_damage_gets_past_as_anything_but_a_fault(call: Any, kind: str) -> None:
    call("save", f"ok.{kind}", Tensor(np.arange(64, dtype=np.uint8).reshape(8, 8)))
    good = Path(f"ok.{kind}").read_bytes()
    random = np.random.default_rng(2)
    load = call.library.functions["load"].implementation
    for _ in range(150):
        data = bytearray(good)
        for place in random.integers(0, len(data), 3):
            data[place] = random.integers(0, 256)
        cut = int(random.integers(1, len(data) + 1)) if random.random() < 0.3 else len(data)
        Path(f"d.{kind}").write_bytes(bytes(data[:cut]))
        try:
            load(f"d.{kind}", None, None, None, None, None)
        except LibraryFault as fault:
            assert fault.code in ("0807", "0804")


def test_paths_that_lead_nowhere(call: Any) -> None:
    assert call.fault("load", "no.csv") == ("0807", "`no.csv`: there is no such file")
    Path("d.npy").mkdir()
    assert call.fault("load", "d.npy") == ("0807", "`d.npy`: this is a folder")
    assert call.fault("save", "d.npy", Tensor(np.zeros(1))) == ("0807", "`d.npy`: this is a folder")
    assert call.fault("load", "x") == ("0807", "`x`: no ending tells the format")
    assert call.fault("load", "x.foo") == ("0807", "`x.foo`: the ending `.foo` names no known format")
    assert call.fault("load", "x.json") == ("0807", "`x.json`: there is no such file")
    assert call.fault("load", "a\0.npy") == ("0807", "`a\\0.npy`: this is no path")
    assert call.fault("load", 3) == ("0203", "a path is a String, not i64")
    np.save("o.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert call.fault("load", "o.npy") == ("0807", "`o.npy`: it holds Python objects, which are never loaded")
    np.save("c.npy", np.zeros(2, np.complex64))
    assert call.fault("load", "c.npy") == ("0807", "`c.npy`: elements of type complex64 have no counterpart here")


def test_a_header_that_promises_too_much_takes_no_memory(call: Any) -> None:
    with Path("huge.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    assert call.fault("load", "huge.npy")[0] == "0804"
    with Path("cut.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (1000,)})
    assert call.fault("load", "cut.npy") == ("0807", "`cut.npy`: it is cut off: shape [1000] needs 8000 bytes")
    with zipfile.ZipFile("enc.npz", "w") as archive:
        archive.writestr("readme.txt", "none")
    assert call.fault("load", "enc.npz") == ("0807", "`enc.npz`: it has 0 arrays; name one")


def test_files_beside_the_program_come_first(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    np.save(folder / "a.npy", np.ones(1))
    np.save("a.npy", np.zeros(1))
    np.save("b.npy", np.full(1, 2.0))
    load = library(StdlibSettings(base_folder=folder)).functions["load"].implementation
    assert load("a.npy", None, None, None, None, None).array.tolist() == [1]
    assert load("b.npy", None, None, None, None, None).array.tolist() == [2]


# ---- render ----------------------------------------------------------------------------------------------------------


def test_a_tensor_renders_as_its_pixels(call: Any) -> None:
    pixels = np.array([[0, 255], [128, 7]], np.uint8)
    path = render(Tensor(pixels), "", {"scale": 3, "file": "p.png"}, call.settings)
    assert path == Path("out/p.png")
    assert np.array_equal(np.array(Image.open(path)), np.kron(pixels, np.ones((3, 3), np.uint8)))


def test_values_beyond_pixels_are_stretched(call: Any) -> None:
    path = render(Tensor(np.array([[-1.0, 0.0, 3.0]])), "image", {}, call.settings)
    assert np.array(Image.open(path)).tolist() == [[0, 64, 255]]
    path = render(Tensor(np.array([[1000, 2000]])), "image", {}, call.settings)
    assert np.array(Image.open(path)).tolist() == [[0, 255]]


def test_titles_name_files_and_repeat_with_numbers(call: Any) -> None:
    names = [render([1.0, 2.0], "", {"title": "The Loss!"}, call.settings) for _ in range(2)]
    names.append(render([1.0], "chart", {}, call.settings))
    assert names == [Path("out/the-loss.png"), Path("out/the-loss-2.png"), Path("out/chart-3.png")]
    assert all(Image.open(name).size == (800, 480) for name in names)


@pytest.mark.parametrize(
    ("value", "form", "options"),
    [
        (np.arange(6.0).reshape(2, 3), "heatmap", {"rows": ["a", "b"], "columns": [1, 2, 3], "title": "$x_1", "width": 320, "height": 200}),
        (np.eye(3), "heatmap", {"labels": ["a", "b", "c"], "values": False, "colormap": "Blues"}),
        (np.array([[np.nan, np.inf]]), "heatmap", {}),
        (np.array([[1, 2, 3], [3, 2, 1]]), "chart", {"labels": ["up", "down"], "x": [1, 2, 4], "log": True}),
        (np.array([np.nan, np.inf, 1.0]), "line", {}),
        (np.zeros(0), "chart", {}),
        (np.random.default_rng(0).random((4, 5, 3)), "image", {"title": "noise", "width": 100}),
    ],
)
def test_forms_draw(call: Any, value: Any, form: str, options: dict[str, Any]) -> None:
    path = render(Tensor(value), form, options, call.settings)
    with Image.open(path) as image:
        assert image.format == "PNG"
        if form == "heatmap" and "width" in options:
            assert image.size == (320, 200)


def test_lines_of_different_length_make_one_chart(call: Any) -> None:
    assert render([[1.0, 2.0, 3.0], [2.0]], "chart", {"labels": ["a", "b"]}, call.settings).exists()


@pytest.mark.parametrize(
    ("value", "form", "options", "expected"),
    [
        ([1.0], "chart", {"colour": 1}, ("0204", "`render` as chart has no option `colour`")),
        ([1.0], "pie", {}, ("0204", "`render` knows no form `pie`")),
        ("text", "chart", {}, ("0203", "`out/chart-1.png`: `render` draws tensors and lists of numbers, not String")),
        ([1.0], "chart", {"width": 0}, ("0203", "`width` is a number of pixels, 1 to 16384, not 0")),
        ([1.0], "chart", {"title": 5}, ("0203", "`title` is a String, not i64")),
        ([1.0], "chart", {"file": "a.gif"}, ("0807", "`a.gif`: a rendering as chart is written as png or svg")),
        ([1.0], "chart", {"labels": ["a", "b"]}, ("0203", "`out/chart-1.png`: `labels` is a list of 1 names")),
        ([[1.0]], "heatmap", {"colormap": "x"}, ("0204", "`out/heatmap-1.png`: there is no colormap `x`")),
    ],
)
def test_render_faults(call: Any, value: Any, form: str, options: dict[str, Any], expected: tuple[str, str]) -> None:
    with pytest.raises(LibraryFault) as caught:
        render(value, form, options, call.settings)
    assert (caught.value.code, caught.value.message) == expected
