"""The page of the gallery names every program, and its pictures are there."""

from tests.docs.gallery import PICTURES, ROOT, page


def test_the_page_of_the_gallery_is_up_to_date() -> None:
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == page(), "run `make pages`"


def test_its_pictures_are_there() -> None:
    assert all((ROOT / "docs" / "pictures" / f"{name}.png").is_file() for name in PICTURES)
