"""The steps of streams: what each takes, and which end a stream."""

from collections.abc import Mapping

from runtime.records import frozen


@frozen
class StepForm:
    """`counts`: the ints that a step takes, of which only the first is `required`; else it takes a function of a value. `ends`: it asks for
    all values, so that nothing is left to hand on."""

    shown: str
    counts: tuple[str, ...] = ()
    function: str = ""
    ends: bool = False


STEPS: Mapping[str, StepForm] = {
    "map": StepForm("map(f)", function="f"),
    "filter": StepForm("filter(p)", function="p"),
    "take_while": StepForm("take_while(p)", function="p"),
    "take": StepForm("take(n)", ("n",)),
    "skip": StepForm("skip(n)", ("n",)),
    "window": StepForm("window(n, step=1)", ("n", "step")),
    "batch": StepForm("batch(n)", ("n",)),
    "enumerate": StepForm("enumerate()"),
    "sink": StepForm("sink(f)", function="f", ends=True),
    "collect": StepForm("collect()", ends=True),
    "count": StepForm("count()", ends=True),
}
