"""The language tinypipe: programs are lists of steps on named images."""

from zyntax.language import Actions, Language, Token
from zyntax.language import build as b


class Lines(Actions):
    def load(self, file: Token, image: Token):
        return b.let(image, b.call("load", b.text(file)))

    def save(self, image: Token, file: Token):
        return b.do(b.call("save", b.text(file), image))

    def show(self, image: Token):
        return b.do(b.call("println", image))

    def operation(self, what: Token, image: Token, amount: Token | None):
        if what not in self.kernels:
            return self.fault("TIP0201", f"no operation `{what}`", at=what, near=self.kernels)
        return b.let(image, b.call(self.kernels[what], image, *(b.number(a, "f32") for a in [amount] if a)))


language = Language(
    "tinypipe", (".tip",), grammar="tinypipe.lark", actions=Lines, kernels="kernels.zynml", inline=True, codes="codes.toml",
    words={"STRING": "a file name in quotes", "_NL": "the end of the line"},
)  # fmt: skip
