"""ImagePipe: programs are lists of operations on named pictures. The language is its grammar, the actions here, and kernels in ZynML, put
together by `zyntax.language` alone."""


import re
from pathlib import Path
from typing import Any

from imagepipe.library import library
from zyntax.language import Actions, Language, Token
from zyntax.language import build as b

GRAMMAR = Path(__file__).with_name("imagepipe.lark")
OPERATIONS = tuple(re.findall(r'^(?:\?line:| +\|) "(\w+)"', GRAMMAR.read_text(encoding="utf-8"), re.MULTILINE))
"""The words with which the grammar's lines begin."""
FORMATS = (".png", ".jpg", ".jpeg")


class Lines(Actions):
    """A method for each kind of line. `images`: those that the lines so far have loaded."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.images: set[str] = set()

    # ---- files and text ------------------------------------------------------------------------------------------------

    def load(self, file: Token, image: Token) -> Any:
        self.images.add(str(image))
        if not self._is_format(file, "read"):
            return None
        return b.let(image, b.call(self.kernels["opened"], b.text(file)))

    def save(self, image: Token, file: Token) -> Any:
        if not self._is_known(image) or not self._is_format(file, "written"):
            return None
        opaque = not str(file).lower().endswith('.png"')
        return b.do(b.call(self.kernels["written"], image, b.text(file), b.boolean(opaque)))

    def show(self, words: Token) -> Any:
        return b.do(b.call("println", b.text(words)))

    # ---- operations ------------------------------------------------------------------------------------------------------

    def resize(self, image: Token, size: Token) -> Any:
        width, height = map(int, str(size).split("x"))
        if width < 1 or height < 1:
            return self.fault("IMG0203", f"a picture can't be {width} by {height}", at=size, hint="both sides are 1 or more")
        return self.changed("resize", image, b.number(width), b.number(height))

    def crop(self, image: Token, left: Token, top: Token, right: Token, bottom: Token) -> Any:
        corners = [self._whole(corner) for corner in (left, top, right, bottom)]
        if not self._is_known(image) or None in corners:
            return None
        for first, second in ((left, right), (top, bottom)):
            if int(first) < 0:
                return self.fault("IMG0204", f"the corner {first} lies outside of any picture", at=first, hint="the first pixel is at 0,0")
            if int(second) <= int(first):
                message = f"nothing lies from {first} to {second}: the second corner is the first pixel that is left out"
                return self.fault("IMG0204", message, at=second, hint=f"it is {int(first) + 1} or more")
        numbers = [b.number(corner) for corner in (left, top, right, bottom)]
        return [b.do(b.call("imagepipe::inside", image, *numbers)), self.changed("crop", image, *numbers)]

    def rotate(self, image: Token, angle: Token) -> Any:
        if str(angle) not in ("90", "180", "270"):
            return self.fault("IMG0205", f"a picture can't be turned by {angle} degrees", at=angle, hint="by 90, 180 or 270, clockwise")
        return self.changed(f"rotate_{angle}", image)

    def flip(self, image: Token, way: Token) -> Any:
        if way not in ("horizontal", "vertical"):
            message = f"a picture can't be flipped `{way}`"
            return self.fault("IMG0206", message, at=way, hint="`horizontal` makes the left side the right, `vertical` the top the bottom")
        return self.changed(f"flip_{way}", image)

    def blur(self, image: Token, sigma: Token) -> Any:
        if float(sigma) < 0:
            return self.fault("IMG0207", f"a blur by {sigma} is none: it is a distance in pixels", at=sigma, hint="0 leaves the picture")
        return self.changed("blur", image, b.number(sigma, "f32"))

    def brighten(self, image: Token, amount: Token) -> Any:
        return self.changed("brighten", image, b.number(amount, "f32"))

    def contrast(self, image: Token, percent: Token) -> Any:
        return self.changed("contrast", image, b.number(percent, "f32"))

    def grayscale(self, image: Token) -> Any:
        return self.changed("grayscale", image)

    def invert(self, image: Token) -> Any:
        return self.changed("invert", image)

    def unknown(self, what: Token, *rest: Any) -> Any:
        return self.fault("IMG0201", f"there is no operation `{what}`", at=what, near=OPERATIONS)

    # ---- parts -------------------------------------------------------------------------------------------------------------

    def changed(self, kernel: str, image: Token, *arguments: Any) -> Any:
        """The picture is from here on what the kernel makes of it."""
        return b.let(image, b.call(self.kernels[kernel], image, *arguments)) if self._is_known(image) else None

    def _is_known(self, image: Token) -> bool:
        if str(image) in self.images:
            return True
        self.fault("IMG0202", f"there is no picture `{image}` here", at=image, near=self.images)
        return False

    def _is_format(self, file: Token, done: str) -> bool:
        if str(file)[1:-1].lower().endswith(FORMATS):
            return True
        self.fault("IMG0208", f"{file} is no name of a picture that can be {done}", at=file, hint="the name ends in `.png` or `.jpg`")
        return False

    def _whole(self, number: Token) -> int | None:
        if "." not in number:
            return int(number)
        self.fault("IMG0204", f"a corner is at whole pixels, not at {number}", at=number, hint=f"write `{round(float(number))}`")
        return None





language = Language(
    "imagepipe",
    (".imgpipe", ".ip"),
    title="ImagePipe",
    grammar=GRAMMAR.name,
    actions=Lines,
    kernels="kernels.zynml",
    library=("zynml", library),
    inline=True,
    codes="codes.toml",
    words={
        "STRING": "a text in quotes",
        "NAME": "a name",
        "NUMBER": "a number",
        "SIZE": "a size such as 320x200",
        "_NL": "the end of the line",
    },
)
