"""The programs of `programs/imagepipe` by `zyntax test`, and the pictures that they write beside NumPy's."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from tests.imagepipe.reference import Picture, blur, brighten, contrast, crop, flip, grayscale, invert, resize, rotate
from zyntax.test_command import command

PROGRAMS = Path(__file__).parents[2] / "programs" / "imagepipe"
PHOTO = np.asarray(Image.open(PROGRAMS.parent / "data" / "grace_hopper.png"))

EXPECTED: dict[str, dict[str, Callable[[], Picture]]] = {
    "photo": {"portrait.png": lambda: brighten(contrast(grayscale(crop(PHOTO, 120, 40, 420, 340)), 12), 10)},
    "thumbnail": {"thumbnail.png": lambda: rotate(resize(PHOTO, 128, 150), 90), "thumbnail.jpg": lambda: rotate(resize(PHOTO, 128, 150), 90)},
    "negative": {"negative.png": lambda: flip(invert(PHOTO), "horizontal")},
    "soft": {"soft.png": lambda: contrast(brighten(blur(resize(PHOTO, 256, 300), 1.5), -20), -8)},
    "two_pictures": {
        "upside_down.png": lambda: invert(brighten(flip(crop(PHOTO, 0, 0, 100, 80), "vertical"), 12.5)),
        "turned.png": lambda: resize(rotate(crop(PHOTO, 300, 400, 340, 430), 180), 123, 45),
    },
    "poster": {
        "poster.png": lambda: rotate(contrast(blur(resize(rotate(crop(PHOTO, 60, 0, 460, 400), 270), 200, 200), 0.8), 120), 90),
    },
}
MOST = {"soft.png": 2, "poster.png": 6}
"""How many levels a byte may differ, 1 by itself. f32 may round a byte to its neighbour where float64 lies near a half; each `contrast` behind
such an operation makes that ((100 + c) / 100)^2 levels: 1 for -8, rounded once more, 4.84 for 120."""


def test_every_operation_is_in_a_program() -> None:
    from imagepipe import OPERATIONS

    words = {line.split()[0] for path in PROGRAMS.glob("*.imgpipe") for line in path.read_text().splitlines() if line.strip()}
    assert set(OPERATIONS) <= words
    assert {path.stem for path in PROGRAMS.glob("*.imgpipe")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_writes_the_pictures_that_numpy_makes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, [str(PROGRAMS / f"{name}.imgpipe")])
    assert done.exit_code == 0, done.output
    for file, expected in EXPECTED[name].items():
        found, want = np.asarray(Image.open(tmp_path / "out" / file)).astype(int), expected().astype(int)
        assert found.shape == want.shape
        if file.endswith(".jpg"):
            assert np.abs(found - _as_jpg(want)).mean() < 0.2, "bytes that round the other way are other jpgs"
        else:
            assert np.abs(found - want).max() <= MOST.get(file, 1)
            assert (found != want).mean() < 0.01


def _as_jpg(picture: np.ndarray) -> np.ndarray:
    """The picture as Pillow writes and reads it."""
    file = BytesIO()
    Image.fromarray(picture.astype(np.uint8)).save(file, "JPEG", quality=95)
    return np.asarray(Image.open(file)).astype(int)
