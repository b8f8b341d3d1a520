"""Blocks of a cluster that write to each other's shared memory: what each missing meeting is told as."""

import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.parse import parse_function
from compiler.hir.verify import verify

MET = "cluster_sync part=arrive writes=false cluster_sync part=wait writes=false"
TOLD = """%t = thread_idx x : index %r = cluster_rank : index %b = block_idx x : index %s = shared_alloc : mem<PLACESxi32, shared>
%v = cast %b to=i32 : i32 %to = cast %t to=i32 : i32 %some = inbounds of=t below=2 : i1 BEFORE
cluster_store %s[r], %v, %to where=%some BEHIND
%w = load %s[1-r] : i32 store %out[b, t], %w END"""


def run(before: str = MET, behind: str = "cluster_sync", places: int = 2, end: str = "", seed: int | None = None) -> np.ndarray:
    body = TOLD.replace("BEFORE", before).replace("BEHIND", behind).replace("PLACES", str(places)).replace("END", end)
    text = f"func @f(%out: mem<4x32xi32>) form=C kernel=[entry=true, kind=custom, workgroup=[32, 1, 1], cluster=[2, 1, 1]] {{\n{body}\n}}"
    function = parse_function(text)
    verify(function)
    out = np.full((4, 32), -1, np.int32)
    interpret(function, [out], grid=(4,), seed=seed)
    return out


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_each_block_reads_what_the_other_has_told_it(seed: int | None) -> None:
    np.testing.assert_array_equal(run(seed=seed), np.repeat([[1], [0], [3], [2]], 32, 1))


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"before": ""}, "0412", "nobody knows that block 0 of the cluster has begun"),
        ({"behind": ""}, "0412", "`s["),
        ({"behind": "sync_threads"}, "0412", "race on shared memory"),
        ({"behind": MET}, "0412", "race on shared memory"),
        ({"end": "cluster_store %s[r], %v, %to where=%some"}, "0412", "race on shared memory"),
        ({"end": "cluster_sync cluster_store %s[r], %v, %to where=%some"}, "0412", "may have ended before"),
        ({"places": 1, "end": "cluster_sync"}, "0801", "out of range"),
    ],
    ids=["nobody has begun", "none", "of the block", "nothing seen", "none before the next", "none at the end", "outside"],
)
def test_a_missing_meeting_is_told(given: dict[str, str], code: str, words: str) -> None:
    with pytest.raises(KernelFault) as caught:
        run(**given)  # type: ignore[arg-type]
    assert caught.value.finding is not None and caught.value.code == code
    assert words in caught.value.finding.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cluster_sync part=half writes=false", "part half: not one of all, arrive, wait"),
        ("cluster_sync part=wait", "part=wait of a meeting at which writes are seen"),
        ("cluster_store %out[0, 0], %v, %to", "is not in shared memory"),
        ("cluster_store %s[0, 0], %v, %to", "2 indices for %s of rank 1"),
        ("cluster_store %s[0], %v, %t", "a rank of type index: i32 is wanted"),
        ("%g = cast %v to=f32 : f32 cluster_store %s[0], %g, %to", "a f32 stored to"),
    ],
)
def test_what_the_verifier_refuses(text: str, words: str) -> None:
    with pytest.raises(ZyntaxError, match=words):
        run(end=text)
