"""The errors of ImagePipe's own, each as its whole text, and those that the compiler says of its programs."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from compiler.authoring.codes import codes_of
from imagepipe import language
from tests.imagepipe.conftest import Zyntax

LOAD = 'load "small.png" as photo\n'

BEFORE_IT_RUNS = {
    "blurr photo by 2": """error[IMG0201]: there is no operation `blurr`
 --> p.imgpipe:2:1
  |
2 | blurr photo by 2
  | ^^^^^
hint: did you mean `blur`?
""",
    "sharpen photo": """error[IMG0201]: there is no operation `sharpen`
 --> p.imgpipe:2:1
  |
2 | sharpen photo
  | ^^^^^^^
""",
    "invert phto": """error[IMG0202]: there is no picture `phto` here
 --> p.imgpipe:2:8
  |
2 | invert phto
  |        ^^^^
hint: did you mean `photo`?
""",
    "resize photo to 0x200": """error[IMG0203]: a picture can't be 0 by 200
 --> p.imgpipe:2:17
  |
2 | resize photo to 0x200
  |                 ^^^^^
hint: both sides are 1 or more
""",
    "crop photo from 2,2 to 2,5": """error[IMG0204]: nothing lies from 2 to 2: the second corner is the first pixel that is left out
 --> p.imgpipe:2:24
  |
2 | crop photo from 2,2 to 2,5
  |                        ^
hint: it is 3 or more
""",
    "crop photo from 0,-1 to 2,5": """error[IMG0204]: the corner -1 lies outside of any picture
 --> p.imgpipe:2:19
  |
2 | crop photo from 0,-1 to 2,5
  |                   ^^
hint: the first pixel is at 0,0
""",
    "crop photo from 0,1.5 to 2,5": """error[IMG0204]: a corner is at whole pixels, not at 1.5
 --> p.imgpipe:2:19
  |
2 | crop photo from 0,1.5 to 2,5
  |                   ^^^
hint: write `2`
""",
    "rotate photo -90": """error[IMG0205]: a picture can't be turned by -90 degrees
 --> p.imgpipe:2:14
  |
2 | rotate photo -90
  |              ^^^
hint: by 90, 180 or 270, clockwise
""",
    "flip photo sideways": """error[IMG0206]: a picture can't be flipped `sideways`
 --> p.imgpipe:2:12
  |
2 | flip photo sideways
  |            ^^^^^^^^
hint: `horizontal` makes the left side the right, `vertical` the top the bottom
""",
    "blur photo by -1.5": """error[IMG0207]: a blur by -1.5 is none: it is a distance in pixels
 --> p.imgpipe:2:15
  |
2 | blur photo by -1.5
  |               ^^^^
hint: 0 leaves the picture
""",
    'save photo as "out.gif"': """error[IMG0208]: "out.gif" is no name of a picture that can be written
 --> p.imgpipe:2:15
  |
2 | save photo as "out.gif"
  |               ^^^^^^^^^
hint: the name ends in `.png` or `.jpg`
""",
    'load "in.bmp" as other': """error[IMG0208]: "in.bmp" is no name of a picture that can be read
 --> p.imgpipe:2:6
  |
2 | load "in.bmp" as other
  |      ^^^^^^^^
hint: the name ends in `.png` or `.jpg`
""",
    "blur photo 1.5": """error[ZYN0101]: expected `by` after `photo`
 --> p.imgpipe:2:12
  |
2 | blur photo 1.5
  |            ^^^
""",
    "print photo": """error[ZYN0101]: expected a text in quotes after `print`
 --> p.imgpipe:2:7
  |
2 | print photo
  |       ^^^^^
""",
}

AS_IT_RUNS = {
    'load "gone.png" as gone': """error[IMG0801]: `gone.png`: there is no such file
 --> p.imgpipe:2:1
  |
2 | load "gone.png" as gone
  | ^^^^^^^^^^^^^^^^^^^^^^^ called from here
 ::: kernels.zynml: in this kernel
""",
    'load "text.png" as words': """error[IMG0801]: `text.png`: this is no picture in its format, or a damaged one
 --> p.imgpipe:2:1
  |
2 | load "text.png" as words
  | ^^^^^^^^^^^^^^^^^^^^^^^^ called from here
 ::: kernels.zynml: in this kernel
""",
    "crop photo from 0,0 to 5,8": """error[IMG0802]: the picture is 6x7, and the second corner is 5,8
 --> p.imgpipe:2:1
  |
2 | crop photo from 0,0 to 5,8
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: the corner may be at most 6,7
""",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.zeros((7, 6, 3), np.uint8)).save(tmp_path / "small.png")
    (tmp_path / "text.png").write_text("no picture")
    return tmp_path


def message(zyntax: Zyntax, line: str, code: int, verb: str) -> str:
    Path("p.imgpipe").write_text(f"{LOAD}{line}\n")
    done = zyntax(verb, "p.imgpipe")
    assert (done.code, done.out) == (code, ""), done.err
    return re.sub(r"[^ ]*kernels\.zynml:\d+:\d+", "kernels.zynml", done.err)


@pytest.mark.parametrize("line", BEFORE_IT_RUNS)
def test_an_error_before_the_program_runs(line: str, folder: Path, zyntax: Zyntax) -> None:
    assert message(zyntax, line, 2, "check") == BEFORE_IT_RUNS[line]


@pytest.mark.parametrize("line", AS_IT_RUNS)
def test_an_error_as_the_program_runs(line: str, folder: Path, zyntax: Zyntax) -> None:
    assert message(zyntax, line, 1, "run") == AS_IT_RUNS[line]


def test_all_errors_of_a_file_are_shown(folder: Path, zyntax: Zyntax) -> None:
    shown = message(zyntax, "blurr photo by 2\nrotate foto 90\nflip photo up // no way", 2, "run")
    assert re.findall(r"^error\[(\w+)\]", shown, re.MULTILINE) == ["IMG0201", "IMG0202", "IMG0206"]


def test_each_code_is_tested_and_explained(zyntax: Zyntax) -> None:
    shown = "".join((*BEFORE_IT_RUNS.values(), *AS_IT_RUNS.values()))
    assert sorted(codes_of(language)) == sorted(set(re.findall(r"IMG\d{4}", shown)))
    for name, code in codes_of(language).items():
        explained = zyntax("explain", name)
        assert explained.code == 0 and explained.out.startswith(f"{name}: {code.title}\n")


def test_programs_of_the_explanations_are_wrong_and_right(folder: Path, zyntax: Zyntax) -> None:
    Image.fromarray(np.zeros((70, 60, 3), np.uint8)).save(folder / "in.png")
    for name, code in codes_of(language).items():
        for text, fails in ((code.wrong, True), (code.right, False)):
            if text:
                (folder / "p.ip").write_text(text)
                done = zyntax("run", "p.ip")
                assert (f"error[{name}]" in done.err) == fails and (done.code != 0) == fails, done.err


def test_explain(zyntax: Zyntax) -> None:
    assert zyntax("explain", "IMG0201").out == """IMG0201: unknown operation

The first word of the line is no operation. There are `load`, `save`, `print`, `resize`, `crop`,
`rotate`, `flip`, `blur`, `brighten`, `contrast`, `grayscale` and `invert`.

Wrong:

    load "in.png" as photo
    blurr photo by 2

Right:

    load "in.png" as photo
    blur photo by 2
"""
