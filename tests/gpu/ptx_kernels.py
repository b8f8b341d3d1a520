"""Tiny kernels in PTX, written by hand, so that the runtime is tested without the compiler."""

HEADER = """
.version 7.0
.target sm_75
.address_size 64
"""

CLUSTER_HEADER = """
.version 7.8
.target sm_90
.address_size 64
"""

INDEX = """
    .reg .pred %p<4>;
    .reg .b16 %h<8>;
    .reg .b32 %r<16>;
    .reg .b64 %d<16>;
    .reg .f32 %f<8>;
    .reg .f64 %g<8>;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.wide.u32 %d0, %r0, %r1, 0;
    cvt.u64.u32 %d1, %r2;
    add.s64 %d0, %d0, %d1;
"""
"""%d0 is the thread's number in the grid, %r2 its number in the block."""

AXPB = (
    HEADER
    + """
// y[i] = a * x[i] + b for i < n
.visible .entry axpb(.param .u64 y, .param .u64 x, .param .f32 a, .param .f32 b, .param .u64 n)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [n];
    setp.ge.u64 %p0, %d0, %d2;
    @%p0 bra END;
    ld.param.u64 %d3, [y];
    ld.param.u64 %d4, [x];
    ld.param.f32 %f0, [a];
    ld.param.f32 %f1, [b];
    shl.b64 %d5, %d0, 2;
    add.s64 %d3, %d3, %d5;
    add.s64 %d4, %d4, %d5;
    ld.global.f32 %f2, [%d4];
    fma.rn.f32 %f3, %f0, %f2, %f1;
    st.global.f32 [%d3], %f3;
END:
    ret;
}
"""
)

PARAMETERS = (
    HEADER
    + """
// writes each parameter, as it is, to its place in `out`
.visible .entry parameters(.param .u64 out, .param .s8 p1, .param .s16 p2, .param .s32 p3, .param .s64 p4,
                           .param .b16 p5, .param .b16 p6, .param .f32 p7, .param .f64 p8, .param .u8 p9)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [out];
    ld.param.u8 %h0, [p1];
    st.global.u8 [%d2], %h0;
    ld.param.u16 %h1, [p2];
    st.global.u16 [%d2+2], %h1;
    ld.param.u32 %r3, [p3];
    st.global.u32 [%d2+4], %r3;
    ld.param.u64 %d3, [p4];
    st.global.u64 [%d2+8], %d3;
    ld.param.b16 %h2, [p5];
    st.global.b16 [%d2+16], %h2;
    ld.param.b16 %h3, [p6];
    st.global.b16 [%d2+18], %h3;
    ld.param.f32 %f0, [p7];
    st.global.f32 [%d2+20], %f0;
    ld.param.f64 %g0, [p8];
    st.global.f64 [%d2+24], %g0;
    ld.param.u8 %h4, [p9];
    st.global.u8 [%d2+32], %h4;
    ret;
}

// copies 128 bytes passed by value, a byte a thread
.visible .entry by_value(.param .u64 out, .param .u8 before, .param .align 64 .b8 data[128])
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [out];
    mov.u64 %d3, data;
    add.s64 %d3, %d3, %d1;
    ld.param.u8 %h0, [%d3];
    add.s64 %d2, %d2, %d1;
    st.global.u8 [%d2], %h0;
    ret;
}
"""
)

SHARED = (
    HEADER
    + """
.extern .shared .align 16 .b8 dynamic[];

// out[i] = n - 1 - i through dynamic shared memory: the last of `words` words, so that all of it must be there
.visible .entry reversed(.param .u64 out, .param .u32 words)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [out];
    ld.param.u32 %r3, [words];
    sub.s32 %r4, %r3, %r1;
    add.s32 %r4, %r4, %r2;
    shl.b32 %r4, %r4, 2;
    mov.u32 %r5, dynamic;
    add.s32 %r6, %r5, %r4;
    st.shared.u32 [%r6], %r2;
    bar.sync 0;
    sub.s32 %r7, %r3, %r2;
    sub.s32 %r7, %r7, 1;
    shl.b32 %r7, %r7, 2;
    add.s32 %r7, %r5, %r7;
    ld.shared.u32 %r8, [%r7];
    shl.b64 %d3, %d1, 2;
    add.s64 %d2, %d2, %d3;
    st.global.u32 [%d2], %r8;
    ret;
}
"""
)

GRID = (
    HEADER
    + """
// every block arrives and waits for all others, then says how many had arrived; gives up after many tries
.visible .entry meet(.param .u64 counter, .param .u64 out)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [counter];
    ld.param.u64 %d3, [out];
    mov.u32 %r3, %nctaid.x;
    mov.u32 %r6, 0;
    setp.ne.u32 %p0, %r2, 0;
    @%p0 bra END;
    atom.global.add.u32 %r4, [%d2], 1;
WAIT:
    ld.volatile.global.u32 %r5, [%d2];
    add.u32 %r6, %r6, 1;
    setp.gt.u32 %p2, %r6, 100000000;
    @%p2 trap;
    setp.lt.u32 %p1, %r5, %r3;
    @%p1 bra WAIT;
    mul.wide.u32 %d4, %r0, 4;
    add.s64 %d3, %d3, %d4;
    st.global.u32 [%d3], %r5;
END:
    ret;
}
"""
)

CLUSTER = (
    CLUSTER_HEADER
    + """
// out[block] = its number in its cluster
.visible .entry rank(.param .u64 out)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [out];
    mov.u32 %r3, %cluster_ctarank;
    mul.wide.u32 %d3, %r0, 4;
    add.s64 %d2, %d2, %d3;
    st.global.u32 [%d2], %r3;
    ret;
}
"""
)

WAITING = (
    HEADER
    + """
// waits about `nanoseconds`
.visible .entry spin(.param .u64 nanoseconds)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [nanoseconds];
    mov.u64 %d3, %globaltimer;
WAIT:
    mov.u64 %d4, %globaltimer;
    sub.s64 %d5, %d4, %d3;
    setp.lt.u64 %p0, %d5, %d2;
    @%p0 bra WAIT;
    ret;
}

.visible .entry nothing(.param .u64 a, .param .u64 b, .param .f32 c, .param .u64 d)
{
    ret;
}
"""
)

FAULTS = (
    HEADER
    + """
.visible .entry stray(.param .u64 where)
{"""
    + INDEX
    + """
    ld.param.u64 %d2, [where];
    st.global.u32 [%d2], %r2;
    ret;
}

.visible .entry trapped()
{
    trap;
    ret;
}
"""
)

ALL = {
    "axpb": AXPB,
    "parameters": PARAMETERS,
    "shared": SHARED,
    "grid": GRID,
    "cluster": CLUSTER,
    "waiting": WAITING,
    "faults": FAULTS,
}
