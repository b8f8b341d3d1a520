// The four functions of bench/native.py as one would write them by hand, unchecked, and the loops that time compiled code from compiled
// code: called through a volatile pointer, varied inputs, carried state.
#include <chrono>
#include <cstdint>
#include <x86intrin.h>

using i64 = int64_t;
using i128 = __int128;
constexpr int LEVELS = 10, WINDOW = 64, IDS = 1024, SLOTS = 256;

struct Order { i64 price, qty, side, time, id, spare[3]; };
struct Risk { i64 killed, max_qty, max_notional, collar, reference, position, max_position, window, head, times[WINDOW], ids[IDS]; };
struct Position { i64 qty, cost, realized, volume, fees, last, unrealized, peak, drawdown; };
struct Book { i64 bid[LEVELS], bid_qty[LEVELS], ask[LEVELS], ask_qty[LEVELS]; };
struct Signal { double fast, slow, a_fast, a_slow, difference, threshold; };
struct Orders { i64 next_id, count, clip, rejected; Order slots[SLOTS]; };

static inline i64 magnitude(i64 x) { return x < 0 ? -x : x; }

static inline i64 risk(Risk *__restrict s, const Order *__restrict o) {
    i64 mask = s->killed != 0 ? 1 : 0;
    mask |= o->qty < 1 || o->qty > s->max_qty ? 2 : 0;
    mask |= (i128)o->price * o->qty > s->max_notional ? 4 : 0;
    mask |= magnitude(o->price - s->reference) > s->collar ? 8 : 0;
    mask |= magnitude(s->position + o->side * o->qty) > s->max_position ? 16 : 0;
    mask |= o->time - s->times[s->head] < s->window ? 32 : 0;
    i64 place = o->id & (IDS - 1);
    mask |= s->ids[place] == o->id ? 64 : 0;
    if (mask == 0) {
        s->times[s->head] = o->time;
        s->head = (s->head + 1) & (WINDOW - 1);
        s->ids[place] = o->id;
    }
    return mask;
}

#ifdef HALF_EVEN
static inline i64 part_of(i64 cost, i64 closed, i64 held) {
    i128 product = (i128)cost * closed;
    i128 whole = product / held, rest = product % held;
    i128 twice = 2 * (rest < 0 ? -rest : rest);
    if (twice > held || (twice == held && (whole & 1))) whole += product < 0 ? -1 : 1;
    return (i64)whole;
}
#else
static inline i64 part_of(i64 cost, i64 closed, i64 held) { return cost * closed / held; }
#endif

static inline i64 fill(Position *__restrict p, const Order *__restrict o) {
    i64 change = o->side * o->qty, qty = p->qty, cost = p->cost;
    if (qty == 0 || (qty > 0) == (change > 0)) {
        cost += o->price * change;
        qty += change;
    } else {
        i64 held = magnitude(qty), sign = qty < 0 ? -1 : 1;
        i64 closed = o->qty < held ? o->qty : held;
        i64 part = part_of(cost, closed, held);
        p->realized += sign * closed * o->price - part;
        cost -= part;
        qty -= sign * closed;
        i64 rest = o->qty - closed;
        if (rest > 0) {
            qty = o->side * rest;
            cost = o->price * qty;
        }
    }
    p->volume += o->qty;
    p->fees += o->price * o->qty * 2 / 10000;
    p->last = o->price;
    p->unrealized = qty * o->price - cost;
    i64 net = p->realized + p->unrealized - p->fees;
    p->peak = net > p->peak ? net : p->peak;
    i64 down = p->peak - net;
    p->drawdown = down > p->drawdown ? down : p->drawdown;
    p->qty = qty;
    p->cost = cost;
    return qty;
}

static inline i64 signal(Signal *__restrict s, const Book *__restrict b) {
    double bid = (double)b->bid[0], ask = (double)b->ask[0], mid = 0.5 * (bid + ask);
    s->fast += s->a_fast * (mid - s->fast);
    s->slow += s->a_slow * (mid - s->slow);
    s->difference = s->fast - s->slow;
    i64 bids = 0, asks = 0;
    for (int i = 0; i < LEVELS; i++) {
        bids += b->bid_qty[i];
        asks += b->ask_qty[i];
    }
    double imbalance = (double)(bids - asks) / (double)(bids + asks);
    double bid_qty = (double)b->bid_qty[0], ask_qty = (double)b->ask_qty[0];
    double micro = (bid * ask_qty + ask * bid_qty) / (bid_qty + ask_qty);
    i64 wanted = 0;
    if (s->difference > 0 && imbalance > s->threshold && micro > mid) wanted = 1;
    if (s->difference < 0 && imbalance < -s->threshold && micro < mid) wanted = -1;
    return wanted;
}

static inline i64 tick(Risk *__restrict r, Position *__restrict p, Signal *__restrict s, Orders *__restrict q, const Book *__restrict b, i64 time) {
    i64 side = signal(s, b);
    if (side == 0) return 0;
    Order *o = &q->slots[q->count & (SLOTS - 1)];
    *o = Order{side > 0 ? b->ask[0] : b->bid[0], q->clip, side, time, ++q->next_id, {0, 0, 0}};
    r->reference = (b->bid[0] + b->ask[0]) >> 1;
    r->position = p->qty;
    if (i64 mask = risk(r, o)) {
        q->rejected++;
        return 256 | mask;
    }
    q->count++;
    fill(p, o);
    return side;
}

#define OUT extern "C" __attribute__((noinline))
OUT i64 c_risk(Risk *s, const Order *o) { return risk(s, o); }
OUT i64 c_fill(Position *s, const Order *o) { return fill(s, o); }
OUT i64 c_signal(Signal *s, const Book *b) { return signal(s, b); }
OUT i64 c_tick(Risk *r, Position *p, Signal *s, Orders *q, const Book *b, i64 time) { return tick(r, p, s, q, b, time); }

// ---- loops ----

static double now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

using C2 = i64 (*)(void *, const void *);
using Z2 = i64 (*)(void *, void *, const void *, void *);
using C6 = i64 (*)(void *, void *, void *, void *, const void *, i64);
using Z6 = i64 (*)(void *, void *, void *, void *, void *, const void *, i64, void *);

// Nanoseconds a call over `n` calls; inputs of `stride` bytes in turn, of which there are `mask` + 1. `sum` gets the sum of the results;
// `failures` how many calls of ours failed.
extern "C" double time_c2(C2 f, void *state, const char *in, i64 stride, i64 mask, i64 n, i64 *sum) {
    C2 volatile held = f;
    i64 total = 0;
    double start = now();
    for (i64 i = 0; i < n; i++) { C2 g = held; total += g(state, in + (i & mask) * stride); }
    double end = now();
    *sum = total;
    return (end - start) / n;
}
extern "C" double time_z2(Z2 f, void *record, void *state, const char *in, i64 stride, i64 mask, i64 n, i64 *sum, i64 *failures) {
    Z2 volatile held = f;
    i64 total = 0, failed = 0, result = 0;
    double start = now();
    for (i64 i = 0; i < n; i++) { Z2 g = held; failed += g(record, state, in + (i & mask) * stride, &result); total += result; }
    double end = now();
    *sum = total;
    *failures = failed;
    return (end - start) / n;
}
extern "C" double time_c6(C6 f, void *a, void *b, void *c, void *d, const char *in, i64 stride, i64 mask, i64 n, i64 *sum) {
    C6 volatile held = f;
    i64 total = 0, time = 1000000000;
    double start = now();
    for (i64 i = 0; i < n; i++) { C6 g = held; time += 700; total += g(a, b, c, d, in + (i & mask) * stride, time); }
    double end = now();
    *sum = total;
    return (end - start) / n;
}
extern "C" double time_z6(Z6 f, void *record, void *a, void *b, void *c, void *d, const char *in, i64 stride, i64 mask, i64 n, i64 *sum, i64 *failures) {
    Z6 volatile held = f;
    i64 total = 0, failed = 0, result = 0, time = 1000000000;
    double start = now();
    for (i64 i = 0; i < n; i++) { Z6 g = held; time += 700; failed += g(record, a, b, c, d, in + (i & mask) * stride, time, &result); total += result; }
    double end = now();
    *sum = total;
    *failures = failed;
    return (end - start) / n;
}

// Nanoseconds a call of ours in each of `n` batches of 16, less what an empty batch takes. The counter of cycles is held against the clock
// over the whole of it.
static inline uint64_t cycles() { _mm_lfence(); uint64_t at = __rdtsc(); _mm_lfence(); return at; }

template <class Call> static void batches(Call call, i64 n, double *out) {
    uint64_t least = ~0ull;
    for (i64 i = 0; i < 1000; i++) { uint64_t begin = cycles(), end = cycles(); least = end - begin < least ? end - begin : least; }
    double start = now();
    uint64_t first = cycles();
    for (i64 i = 0; i < n; i++) {
        uint64_t begin = cycles();
        for (i64 k = 16 * i; k < 16 * i + 16; k++) call(k);
        uint64_t took = cycles() - begin;
        out[i] = took > least ? double(took - least) : 0;
    }
    double ns = (now() - start) / double(cycles() - first) / 16;
    for (i64 i = 0; i < n; i++) out[i] *= ns;
}
extern "C" void batches_2(Z2 f, void *record, void *state, const char *in, i64 stride, i64 mask, i64 n, double *out) {
    Z2 volatile held = f;
    i64 result = 0;
    batches([&](i64 i) { Z2 g = held; g(record, state, in + (i & mask) * stride, &result); }, n, out);
}
extern "C" void batches_6(Z6 f, void *record, void *a, void *b, void *c, void *d, const char *in, i64 stride, i64 mask, i64 n, double *out) {
    Z6 volatile held = f;
    i64 result = 0, time = 1000000000;
    batches([&](i64 i) { Z6 g = held; g(record, a, b, c, d, in + (i & mask) * stride, time += 700, &result); }, n, out);
}
