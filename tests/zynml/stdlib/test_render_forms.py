"""What renderings show, read back from their files: bars and dots of an svg, pixels of a png, cells of a table, a whole page."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from compiler.typed_ast.library import LibraryFault
from runtime.tensor import Tensor
from runtime.values import struct_class
from zynml.api import open_source
from zynml.stdlib.render import render

pytestmark = pytest.mark.usefixtures("call")

NUMBER = r"-?\d+\.?\d*"


def svg(path: Path) -> ElementTree.Element:
    return ElementTree.fromstring(path.read_bytes())


def boxes(root: ElementTree.Element) -> list[tuple[float, float]]:
    """Width and height of each filled box with a white edge: a bar."""
    found = []
    for element in root.iter("{http://www.w3.org/2000/svg}path"):
        if "stroke: #ffffff" in element.get("style", "") and "fill: #1f77b4" in element.get("style", ""):
            corners = np.array([[float(a), float(b)] for a, b in re.findall(f"({NUMBER}) ({NUMBER})", element.get("d", ""))])
            found.append(tuple(corners.max(axis=0) - corners.min(axis=0)))
    return found


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


class Cells(HTMLParser):
    """The cells of a page's tables, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self.inside = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


@pytest.mark.parametrize("options", [{"bins": 7}, {"bins": [-2.0, -1.0, 0.0, 0.5, 3.0]}, {"bins": 4, "range": (-1.0, 1.0)}])
def test_bars_of_a_histogram_are_as_high_as_numpy_counts(call: Any, options: dict[str, Any]) -> None:
    values = np.random.default_rng(2).normal(size=(30, 10))
    values[0, 0], values[1, 1] = np.nan, np.inf
    path = render(Tensor(values), "histogram", {**options, "file": "h.svg", "title": "A & b"}, call.settings)
    counts, borders = np.histogram(values[np.isfinite(values)], options["bins"], options.get("range"))
    found = np.array(boxes(svg(path)))
    np.testing.assert_allclose(found[:, 1] / found[:, 1].max(), counts / counts.max(), atol=1e-4)
    np.testing.assert_allclose(found[:, 0] / found[:, 0].sum(), np.diff(borders) / np.diff(borders).sum(), atol=1e-4)
    assert "A & b" in texts(svg(path))


def test_dots_of_a_scatter_lie_where_the_points_do(call: Any) -> None:
    x, y = np.random.default_rng(3).random((2, 40))
    y[5] = np.nan
    for number, (value, options) in enumerate([(np.stack([x, y], 1), {}), (y, {"x": Tensor(x)})]):
        path = render(Tensor(value), "scatter", {**options, "file": f"s{number}.svg", "xlabel": "width"}, call.settings)
        uses = [element for element in svg(path).iter("{http://www.w3.org/2000/svg}use") if "fill: #1f77b4" in element.get("style", "")]
        found = np.array([[float(element.get("x", "nan")), -float(element.get("y", "nan"))] for element in uses])
        points = np.stack([x, y], 1)[np.isfinite(y)]
        scaled = [(p - p.min(axis=0)) / (p.max(axis=0) - p.min(axis=0)) for p in (found, points)]
        np.testing.assert_allclose(scaled[0], scaled[1], atol=1e-4)
        assert "width" in texts(svg(path))


def test_pictures_of_a_grid_stand_row_by_row(call: Any) -> None:
    pixels = np.random.default_rng(4).integers(0, 256, (5, 3, 4), dtype=np.uint8)
    for value in (Tensor(pixels), [Tensor(picture) for picture in pixels]):
        path = render(value, "grid", {"columns": 2, "scale": 2}, call.settings)
        shown = np.array(Image.open(path))[:, :, 0]
        assert shown.shape == (3 * 6 + 2 * 4, 2 * 8 + 4)
        for number, picture in enumerate(pixels):
            row, column = divmod(number, 2)
            part = shown[row * 10 : row * 10 + 6, column * 12 : column * 12 + 8]
            assert np.array_equal(part, np.kron(picture, np.ones((2, 2), np.uint8)))


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (Tensor(np.array([[1.0, 1 / 3], [3, 4]])), {}, [["1.0", "0.333333"], ["3.0", "4.0"]]),
        (
            Tensor(np.array([1, 2])),
            {"columns": ["<n>"], "rows": ["a", "b"]},
            [["", "<n>"], ["a", "1"], ["b", "2"]],
        ),
        ([("x", 1.5), ("y", 2.0)], {"columns": ["name", "n"], "format": ".2f"}, [["name", "n"], ["x", "1.50"], ["y", "2.00"]]),
        ([{"a": 1}, {"b": True}], {}, [["a", "b"], ["1", ""], ["", "true"]]),
        ({"a": [1, 2], "b": ["x"]}, {}, [["a", "b"], ["1", "x"], ["2", ""]]),
        ({"a": 1, "b": "<i>"}, {}, [["a", "1"], ["b", "<i>"]]),
        ([struct_class("P", ["x", "y"])((1, "&"))], {}, [["x", "y"], ["1", "&"]]),
        ([], {}, []),
    ],
)
def test_cells_of_a_table(call: Any, value: Any, options: dict[str, Any], expected: list[list[str]]) -> None:
    path = render(value, "table", {**options, "title": "<T>"}, call.settings)
    assert path == Path("out/t.html")
    text = path.read_text()
    assert Cells(text).rows == expected and "<figcaption>&lt;T&gt;</figcaption>" in text and "<i>" not in text


def test_markdown_stays_as_it_is_or_becomes_html(call: Any) -> None:
    text = "# A\n\n*b* <script>x</script>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert render(text, "", {}, call.settings).read_text() == text
    page = render(text, "markdown", {"file": "a.html"}, call.settings).read_text()
    assert "<h1>A</h1>" in page and "<em>b</em> &lt;script&gt;" in page and Cells(page).rows == [["a", "b"], ["1", "2"]]


def test_the_form_follows_the_value(call: Any) -> None:
    assert [
        render(value, "", {}, call.settings).name
        for value in (
            "text",
            {"a": 1},
            [{"a": 1}],
            [Tensor(np.zeros((2, 2))), Tensor(np.zeros((3, 3)))],
            [1.0, 2.0],
            Tensor(np.zeros((2, 3))),
        )
    ] == ["markdown-1.md", "table-2.html", "table-3.html", "grid-4.png", "chart-5.png", "image-6.png"]


@pytest.mark.parametrize(
    ("value", "form", "options", "expected"),
    [
        ([1.0], "histogram", {"bins": 0}, "`out/histogram-1.png`: `bins` is a number, 1 to 10000, or a list of borders that ascend, not 0"),
        ([1.0], "histogram", {"bins": [1.0, 0.0]}, "`out/histogram-1.png`: `bins` is a number, 1 to 10000, or a list of borders that ascend, not [1.0, 0.0]"),
        ([1.0], "histogram", {"range": (1.0, 0.0)}, "`out/histogram-1.png`: `range` is the lowest and the highest value, such as (0.0, 1.0), not (1.0, 0.0)"),
        ([1.0], "scatter", {"x": [1.0, 2.0]}, "`out/scatter-1.png`: `x` has shape [2], and there are 1 points"),
        (Tensor(np.zeros((2, 4))), "scatter", {}, "`out/scatter-1.png`: a scatter has shape [points], [points, 2] or [points, 3], not [2, 4]"),
        ([[1.0, 2.0]], "scatter", {"color": [1.0, 2.0]}, "`out/scatter-1.png`: `color` has shape [2], and there are 1 points"),
        ([1.0], "scatter", {"size": 0}, "`out/scatter-1.png`: `size` is a number of pixels, up to 100, not 0"),
        ([1.0], "grid", {}, "`out/grid-1.png`: a grid has shape [N, H, W] or [N, H, W, C], not [1]"),
        (Tensor(np.zeros((2, 2, 2))), "grid", {"columns": 0}, "`out/grid-1.png`: `columns` is a whole number of at least 1, not 0"),
        (3, "table", {}, "`out/table-1.html`: a table is made of lists, maps, structs and tensors, not i64"),
        (Tensor(np.zeros((2, 2, 2))), "table", {}, "`out/table-1.html`: a table has rank 1 or 2, and this is a tensor of shape [2, 2, 2]"),
        ([[1, 2]], "table", {"columns": ["a"]}, "`out/table-1.html`: `columns` is a list of 2 names"),
        ([[1.0]], "table", {"format": "q"}, "`out/table-1.html`: `q` is no format of floats"),
        ([[1.0]], "table", {"file": "a.png"}, "`a.png`: a rendering as table is written as html"),
        (3, "markdown", {}, "`out/markdown-1.md`: `render` as markdown takes a String, not i64"),
    ],
)  # fmt: skip
def test_faults_of_forms(call: Any, value: Any, form: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(LibraryFault) as caught:
        render(value, form, options, call.settings)
    assert caught.value.message == expected
    assert not Path("out").exists() or not list(Path("out").iterdir())


def test_a_page_collects_all_renderings_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = """
render rand(3, 4)
render scatter([1.0, 2.0], [3.0, 4.0], title="Dots")
render table([(1, "a")]) { title: "Rows & more" }
render "*note*"
render chart([1.0, 2.0]) { file: "c.svg" }
println([1, 2][5])
render "never"
"""
    options = CompileOptions(device="cpu", render_page="pages/all.html")
    with pytest.raises(Exception, match="ZYN0801"):
        open_source(Source("program.zynml", text), options, Sources(), lambda warning: None).run()
    assert capsys.readouterr().out == "[render] pages/all.html\n[render] out/c.svg\n"
    page = Path("pages/all.html").read_text()
    forms = re.findall(r'<figure class="(\w+)">', page)
    assert forms == ["image", "scatter", "table", "markdown", "chart"]
    assert "<figcaption>Rows &amp; more</figcaption>" in page and "<em>note</em>" in page and Cells(page).rows == [["1", "a"]]
    pictures = [base64.b64decode(found) for found in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert Image.open(io.BytesIO(pictures[0])).size == (4, 3) and Image.open(io.BytesIO(pictures[1])).size == (640, 560)
    assert base64.b64decode(re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)[0]) == Path("out/c.svg").read_bytes()
    assert not re.search(r"(src|href)=\"(?!data:)", page)
