"""What ImagePipe asks of Python: the faults that only a picture's size or a file can tell."""

from typing import Any

from zyntax.language import Library, LibraryFault

library = Library()


@library.function("imagepipe::inside", image="value", left="int", top="int", right="int", bottom="int")
def inside(image: Any, left: int, top: int, right: int, bottom: int) -> None:
    """Nothing, where the corners lie in the picture."""
    height, width = image.shape[:2]
    if right > width or bottom > height:
        message = f"the picture is {width}x{height}, and the second corner is {right},{bottom}"
        raise LibraryFault("IMG0802", message, f"the corner may be at most {width},{height}")


@library.function("imagepipe::refused", message="String")
def refused(message: str) -> None:
    """The fault of a file that is no picture to read."""
    raise LibraryFault("IMG0801", message)
