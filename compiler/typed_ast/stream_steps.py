"""The steps of streams: what each takes, and which end a stream."""

from collections.abc import Mapping

from runtime.records import frozen


@frozen
class StepForm:
    """`counts`: the ints that a step takes, of which only the first is required; else it takes a function of a value, or `others`, values
    beside those of the stream. `ends`: it asks for
    values itself, so that nothing is left to hand on. `of_lists`: it is the method of lists of that name, of all values."""

    shown: str
    counts: tuple[str, ...] = ()
    function: str = ""
    others: str = ""
    ends: bool = False
    of_lists: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.counts or tuple(name for name in (self.function, self.others) if name)


def _of_lists(*shown: str) -> dict[str, StepForm]:
    return {text.partition("(")[0]: StepForm(text, ends=True, of_lists=True) for text in shown}


VALUES = "·values"
"""The step before a method of lists: it hands the values on one by one, to a method that takes them so."""


STEPS: Mapping[str, StepForm] = {
    "map": StepForm("map(f)", function="f"),
    "filter": StepForm("filter(p)", function="p"),
    "take_while": StepForm("take_while(p)", function="p"),
    "take": StepForm("take(n)", ("n",)),
    "skip": StepForm("skip(n)", ("n",)),
    "window": StepForm("window(n, step=1)", ("n", "step")),
    "batch": StepForm("batch(n)", ("n",)),
    "enumerate": StepForm("enumerate()"),
    "zip": StepForm("zip(xs)", others="xs"),
    "chain": StepForm("chain(xs)", others="xs"),
    "sink": StepForm("sink(f)", function="f", ends=True),
    "collect": StepForm("collect()", ends=True),
    **_of_lists("count()", "sum()", "prod()", "min()", "max()", "first()", "last()", "fold(initial, f)", "any(p)", "all(p)", "find(p)"),
    VALUES: StepForm("", ends=True),
}
