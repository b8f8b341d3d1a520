"""Tuning runs on a GPU: where estimates lie too near each other, the first call with these sizes tries the candidates, and what it finds
is kept. One run at a time on a device, and no more of them than a process should wait for."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from weakref import WeakKeyDictionary

from compiler.codes.device_faults import DeviceTrouble
from compiler.devices.tuning.contest import LEAST_ROUNDS, ContestResult, Round, Verdict, contest
from compiler.devices.tuning.trials import BEFORE, Trials, may_be_tried
from compiler.diagnostics import ZyntaxError
from compiler.launch.cache import TUNED, Cache
from compiler.launch.cuda import tuned
from compiler.launch.cuda.calls import PlannedCall
from compiler.launch.cuda.planning import Settle, TuningCase, first
from compiler.options import Tuning
from compiler.schedule.gpu.choose import LaunchChoice
from compiler.schedule.gpu.facts import Facts
from runtime import forks
from runtime.cuda.gpu import Gpu
from runtime.records import Factory, define
from runtime.tensor import Tensor

ALL_RUNS = 60.0
"""Seconds that all runs of a process take together, about: a program whose sizes differ from call to call isn't tuned for ever."""

Make = Callable[[Facts], PlannedCall]


@define(eq=False)
class GpuTuner:
    """The runs of one GPU."""

    spent: float = 0.0
    """Seconds."""
    changes: int = 0
    """Runs that took another way than the model's."""
    _ended: bool = False
    _known: Cache[tuple[str, str], tuple[LaunchChoice, bool]] = Factory(partial(Cache, TUNED))
    """The choices, and whether another run would take the same."""
    _lock: threading.Lock = Factory(forks.lock)

    def settle(self, case: TuningCase) -> Settle:
        """The call of the choice that is known to be the fastest for a case's sizes, or is found to be now."""
        return partial(self._settled, case)

    def _settled(self, case: TuningCase, choices: tuple[LaunchChoice, ...], sizes: Mapping[str, int], call: Make) -> PlannedCall:
        choices = affordable(choices, case.tuning.seconds)
        if len(choices) < 2:
            return first(choices, sizes, call)
        name = tuned.name_of(case.field)
        facts = choices[0].facts
        # Block tables are of about these sizes, and so is what a run finds of them.
        held = tuned.case_of(facts, sizes if facts.digits is None else dict(facts.magnitudes), case.gpu.device)
        with self._lock:
            known = self._known.get((name, held))
            if known is None and (choice := tuned.known_choice(name, held, choices)) is not None:
                known = self._known.keep((name, held), (choice, True))
            if known is None:
                began = perf_counter()
                usual = call(choices[0].facts)
                making = perf_counter() - began
                if self.spent >= ALL_RUNS or not may_be_tried(usual, case.stream):
                    self._say_it_ends(case.tuning)
                    usual.lasting = False
                    return usual
                known = self._known.keep((name, held), self._run(case, choices, usual, call, making))
                if known[1]:
                    tuned.keep(name, held, known[0], sizes, case.gpu.device.properties.name)
        choice, lasts = known
        run_call = call(choice.facts)
        run_call.lasting = lasts
        return run_call

    def _say_it_ends(self, tuning: Tuning) -> None:
        if self.spent >= ALL_RUNS and not self._ended:
            self._ended = True
            tuning.tell(f"tuning took {self.spent:.0f} s in this process: from here on estimates decide, where nothing is known")

    def _run(
        self, case: TuningCase, choices: Sequence[LaunchChoice], usual: PlannedCall, call: Make, making: float
    ) -> tuple[LaunchChoice, bool]:
        """The choice, and whether it lasts. `making`: seconds that the usual one took to make."""
        trials: list[Trials] = []

        def candidate(choice: LaunchChoice) -> Round:
            if not trials:
                trials.append(Trials(usual, case.given, case.values, case.stream))
            return trials[0].candidate(call(choice.facts))

        makers = [lambda choice=choice: candidate(choice) for choice in choices]
        result = contest(makers, case.tuning.seconds, (*DeviceTrouble, ZyntaxError), expected=making)
        self.spent += result.seconds
        self.changes += result.chosen > 0
        choice = choices[result.chosen]
        case.tuning.tell(words(case, usual, choice, len(choices), result))
        return choice, result.verdict.lasts


def affordable(choices: tuple[LaunchChoice, ...], seconds: float) -> tuple[LaunchChoice, ...]:
    """The first of the choices, as many as can be timed in half of these seconds by what they are estimated to take."""
    left, within = 1e9 * seconds / 2, []
    for choice in choices:
        left -= (BEFORE + LEAST_ROUNDS) * (choice.nanoseconds or 0.0)
        if left < 0:
            break
        within.append(choice)
    return tuple(within) or choices[:1]


def words(case: TuningCase, usual: PlannedCall, choice: LaunchChoice, count: int, result: ContestResult) -> str:
    """A run in a line."""
    shapes = ", ".join(f"{name} {'x'.join(map(str, value.shape))}" for name, value in case.given.items() if isinstance(value, Tensor))
    line = f"tuned {usual.steps[0].plan.where or usual.steps[0].plan.kernel.name} ({shapes}): "
    line += f"{result.tried} of {count} candidates in {result.seconds:.1f} s, "
    own, best = result.times[0], result.times[result.chosen]
    if result.verdict is Verdict.FASTER and own is not None and best is not None and (cut := choice.cut) is not None:
        return f"{line}{own / best:.2f} times as fast as the model's choice with {'; '.join(cut.words())}"
    return line + result.verdict.value + (f": {result.trouble}" if result.trouble else "")


_TUNERS: "WeakKeyDictionary[Gpu, GpuTuner]" = WeakKeyDictionary()
_LOCK = forks.lock()


def tuner_of(gpu: Gpu) -> GpuTuner:
    """The one of a GPU."""
    with _LOCK:
        return _TUNERS.setdefault(gpu, GpuTuner())


def forget() -> None:
    """What runs of this process found, and how long they took."""
    with _LOCK:
        _TUNERS.clear()
