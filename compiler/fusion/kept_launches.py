"""What is known of a program's launches from other processes that ran it: which blocks and chains machine code may launch, and where its
code lies in the user's cache."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from compiler.launch.native_calls.host_blocks import ChainLaunches, HostLaunches, LaunchStep, LaunchSteps, NativeBlock, in_words, offsets
from compiler.launch.native_calls.straight import offsets as offsets_of_functions
from runtime.records import Factory, define

if TYPE_CHECKING:
    from compiler.launch.native_calls.kept import KeptAnswers


@define(eq=False)
class KeptLaunches:
    """`origin`: all that the program is made of; `unawaited`: see `NativeCalls`; `may_keep`: see
    `KeptAnswers`. `asks`: code of other processes may answer; else they only
    find what this one makes. `blocks`: by site, the inputs that the block updates, and whether it runs on the CPU whatever devices there
    are; `chains`: see `_chain_in_words`."""

    origin: tuple[str, ...]
    unawaited: object
    may_keep: Callable[[], bool]
    asks: bool = False
    blocks: dict[str, Any] = Factory(dict)
    chains: dict[str, Any] = Factory(dict)
    has_news: bool = False

    def answers(self, *launched: str) -> "KeptAnswers":
        """For the calls of one block or chain with values of the same types. A program that launches nothing loads no NumPy for them."""
        from compiler.launch.native_calls.kept import KeptAnswers

        return KeptAnswers((*self.origin, *launched), offsets(), self.unawaited, self.may_keep)

    def of_function(self, name: str) -> "KeptAnswers":
        """For the calls of a function that is a sequence of blocks."""
        from compiler.launch.native_calls.kept import KeptAnswers

        return KeptAnswers((*self.origin, "function", name), offsets_of_functions(), self.unawaited, self.may_keep)

    # ---- blocks ----

    def block(self, site: int, names: tuple[str, ...]) -> NativeBlock | None:
        """The block at a site, where another process had machine code launch it."""
        words = self.blocks.get(str(site)) if self.asks else None
        return None if words is None else self._block(site, names, tuple(words[0]), words[1])

    def new_block(self, site: int, names: tuple[str, ...], updated: tuple[str, ...], anywhere: bool) -> NativeBlock:
        self.blocks[str(site)] = [updated, anywhere]
        self.has_news = True
        return self._block(site, names, updated, anywhere)

    def _block(self, site: int, names: tuple[str, ...], updated: tuple[str, ...], anywhere: bool) -> NativeBlock:
        return NativeBlock(names, updated, self.unawaited, lambda types: self.answers("block", f"{site}", types), anywhere, self.asks)

    # ---- chains ----

    def chain(self, key: Any, types: Sequence[type]) -> Any:
        """What another process found of a chain: True where it is another one for each of its extents, None for nothing."""
        words = self.chains.get(in_words(key)) if self.asks else None
        return words if words is None or words is True else self._chain(key, types, words)

    def note_chain(self, key: Any, chain: ChainLaunches | bool) -> None:
        self.chains[in_words(key)] = chain if isinstance(chain, bool) else _chain_in_words(chain)
        self.has_news = True

    def _chain(self, key: Any, types: Sequence[type], words: Any) -> ChainLaunches:
        steps = tuple(LaunchStep({n: _origin(o) for n, o in inputs.items()}, count) for inputs, count in words[0])
        of_chain = LaunchSteps(tuple(types), steps, kept=tuple([tuple(origin) for origin in words[1]]))
        launches = HostLaunches(of_chain, self.unawaited, self.answers("chain", in_words(key)), words[3], self.asks)
        return ChainLaunches(launches, tuple(words[2]))


def _origin(words: Any) -> Any:
    return words if isinstance(words, int) else tuple(words)


def _chain_in_words(chain: ChainLaunches) -> Any:
    steps = chain.launches.steps
    launches = [[dict(step.inputs), step.results] for step in steps.steps]
    return [launches, steps.kept, chain.kept, chain.launches.anywhere]
