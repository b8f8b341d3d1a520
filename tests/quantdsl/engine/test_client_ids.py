"""`duplicate_id`: a client id among the last n accepted ones is refused, in whatever order ids come."""

from collections import deque
from typing import Any

import numpy as np
import pytest

from compiler.backends.native.compile import HostModule, compile_module
from compiler.hir.layout import new_memory
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I1, U64, struct
from compiler.hir.types import Pointer
from quantdsl.engine.layout import ENGINE_STATE
from quantdsl.engine.orders import declare_own
from quantdsl.engine.risk import RiskRules, define_risk, risk_memory
from runtime.replay.outputs.records import RiskRule


def trying(rules: RiskRules) -> HostModule:
    """`try`: whether an id is a duplicate; one that isn't is accepted."""
    program, state = ModuleBuilder("ids"), struct("state", risk=risk_memory(rules))
    names = ("risk.judge", "risk.accept")
    for name in names:
        declare_own(program, name, state)
    define_risk(program, rules, names)
    with program.function("try", {"desk": Pointer(ENGINE_STATE), "state": Pointer(state), "client": U64}, [I1]) as b:
        desk, held, client = b.parameters
        no, yes = b.const(False, "i1"), b.const(True, "i1")
        mask, _ = b.call("risk.judge", desk, held, b.const(0, "u8"), 1, yes, 1, no, yes, client, -1)
        known = (mask & int(RiskRule.DUPLICATE_ID)) != 0
        with b.when(~known):
            b.call("risk.accept", desk, held, yes, client)
        b.ret(known)
    return compile_module(program.module)


def sequences(rng: np.random.Generator, n: int) -> dict[str, list[int]]:
    many = 12 * n + 40
    rising = np.cumsum(rng.integers(1, 4, many))
    again = rising.copy()
    for _ in range(many // 3):
        at = int(rng.integers(1, many))
        again[at] = again[at - int(rng.integers(1, min(at, 2 * n + 2) + 1))]
    return {
        "rising": [int(x) for x in rising],
        "some again": [int(x) for x in again],
        "falling": [int(x) for x in rising[::-1]],
        "few": [int(x) for x in rng.integers(0, n + 3, many)],
        "ends": [[0, 2**64 - 1, 2**63, 1][int(x)] for x in rng.integers(0, 4, many)],
    }


@pytest.mark.parametrize("n", [1, 2, 3, 8, 31])
def test_ids_are_refused_while_they_are_among_the_last_accepted(n: int) -> None:
    rules = RiskRules(duplicate_id=n)
    module = trying(rules)
    desk: Any = new_memory(ENGINE_STATE)
    for name, ids in sequences(np.random.default_rng(n), n).items():
        state, last = new_memory(struct("state", risk=risk_memory(rules))), deque[int](maxlen=n)
        for number, id in enumerate(ids):
            known = bool(module["try"].run([desk, state, id]).results[0])
            assert known == (id in last), f"{name}: {id}, number {number}"
            if not known:
                last.append(id)
