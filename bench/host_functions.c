// The functions of host_functions.zynml, every operation checked where theirs is. A failure gives -1.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef struct { i64 a, b, c, d; } matrix;

#define ADD(x, y, to) if (__builtin_expect(__builtin_add_overflow((i64)(x), (i64)(y), to), 0)) return -1
#define MUL(x, y, to) if (__builtin_expect(__builtin_mul_overflow((i64)(x), (i64)(y), to), 0)) return -1
#define IN(i, n) if (__builtin_expect((uint64_t)(i) >= (uint64_t)(n), 0)) return -1

i64 collatz(i64 limit) {
    i64 longest = 0, n = 1;
    while (n < limit) {
        i64 x = n, steps = 0;
        while (x != 1) {
            if (x % 2 == 0) x = x / 2;
            else { MUL(3, x, &x); ADD(x, 1, &x); }
            ADD(steps, 1, &steps);
        }
        if (steps > longest) longest = steps;
        ADD(n, 1, &n);
    }
    return longest;
}

i64 sieve(i64 rounds) {
    i64 total = 0;
    for (i64 round = 0; round < rounds; round++) {
        bool composite[8000];
        memset(composite, 0, sizeof composite);
        i64 count = 0, i;
        ADD(total, round, &i);
        i = i % 2;
        ADD(2, i, &i);
        while (i < 8000) {
            IN(i, 8000);
            if (!composite[i]) {
                ADD(count, 1, &count);
                i64 j;
                MUL(i, 2, &j);
                while (j < 8000) {
                    IN(j, 8000);
                    composite[j] = true;
                    ADD(j, i, &j);
                }
            }
            ADD(i, 1, &i);
        }
        ADD(total, count, &total);
    }
    return total;
}

i64 mandelbrot(i64 size, i64 limit) {
    i64 total = 0;
    for (i64 row = 0; row < size; row++) {
        for (i64 column = 0; column < size; column++) {
            double cx = 3.0 * (double)column / (double)size - 2.25, cy = 2.5 * (double)row / (double)size - 1.25, x = 0.0, y = 0.0;
            i64 n = 0;
            while (n < limit && x * x + y * y <= 4.0) {
                double next = x * x - y * y + cx;
                y = 2.0 * x * y + cy;
                x = next;
                ADD(n, 1, &n);
            }
            ADD(total, n, &total);
        }
    }
    return total;
}

static i64 cell(i64 p, i64 q, i64 r, i64 s, i64 modulus, i64 *to) {
    i64 one, other;
    MUL(p, q, &one);
    MUL(r, s, &other);
    ADD(one, other, &one);
    if (__builtin_expect(modulus == 0, 0)) return -1;
    *to = modulus == -1 ? 0 : one % modulus;
    return 0;
}

static i64 product(matrix x, matrix y, i64 modulus, matrix *to) {
    matrix found;
    if (cell(x.a, y.a, x.b, y.c, modulus, &found.a) || cell(x.a, y.b, x.b, y.d, modulus, &found.b)) return -1;
    if (cell(x.c, y.a, x.d, y.c, modulus, &found.c) || cell(x.c, y.b, x.d, y.d, modulus, &found.d)) return -1;
    *to = found;
    return 0;
}

static i64 power(matrix base, i64 exponent, i64 modulus, matrix *to) {
    matrix result = {1, 0, 0, 1}, square = base;
    i64 left = exponent;
    while (left > 0) {
        if (left % 2 == 1 && product(result, square, modulus, &result)) return -1;
        if (product(square, square, modulus, &square)) return -1;
        left = left / 2;
    }
    *to = result;
    return 0;
}

i64 exponent(i64 rounds) {
    i64 seed = 1;
    for (i64 round = 0; round < rounds; round++) {
        matrix base = {1, 1, seed % 7, 0}, found;
        i64 to;
        ADD(1000000, seed % 1000, &to);
        if (power(base, to, 1000000007, &found)) return -1;
        ADD(found.b, round, &seed);
        seed = seed % 1000000007;
    }
    return seed;
}

typedef struct { i64 x, y; } walker;

static inline i64 step(walker *self, i64 by) {
    i64 x, y;
    MUL(self->x, 3, &x); ADD(x, self->y, &x); ADD(x, by, &x);
    self->x = x % 1009;
    ADD(self->y, self->x, &y);
    self->y = y % 1013;
    return 0;
}

i64 walk(i64 rounds) {
    walker found = {1, 2};
    i64 to;
    for (i64 round = 0; round < rounds; round++) if (step(&found, round)) return -1;
    MUL(found.x, 10000, &to);
    ADD(to, found.y, &to);
    return to;
}

i64 largest(i64 rounds) {
    i64 found = 0;
    double sum = 0.0;
    for (i64 round = 0; round < rounds; round++) {
        i64 next;
        MUL(round, 7919, &next);
        next = next % 100003;
        found = found > next ? found : next;
        double other = (double)(round % 11);
        sum = sum > other ? sum : other;
    }
    if (!(sum > -9223372036854775808.0 && sum < 9223372036854775808.0)) return -1;
    ADD(found, (i64)sum, &found);
    return found;
}

double area(i64 parts, double by) {
    double sum = 0.0;
    for (i64 i = 0; i < parts; i++) {
        double x = (i + 0.5) * 2.0 / parts;
        sum += by * x * x - x;
    }
    return sum * 2.0 / parts;
}

// Rows and columns begin anywhere, as those of a tensor do; indices below 0 count from the end.
#define AT(i, n, to) do { to = (i); if (to < 0) to += (n); IN(to, n); } while (0)
#define CELL(p, i, j, to) do { \
    i64 row_, column_; \
    AT(i, p##_rows, row_); AT(j, p##_columns, column_); \
    to = p + row_ * p##_down + column_ * p##_right; \
} while (0)

double spread(
    const double *x, i64 x_rows, i64 x_columns, i64 x_down, i64 x_right, double *y, i64 y_rows, i64 y_columns, i64 y_down, i64 y_right
) {
    double sum = 0.0;
    i64 rows, columns;
    if (__builtin_sub_overflow(x_rows, 1, &rows) || __builtin_sub_overflow(x_columns, 1, &columns)) return -1;
    for (i64 i = 1; i < rows; i++) {
        for (i64 j = 1; j < columns; j++) {
            const double *above, *below, *left, *right;
            double *here;
            i64 up, down, back, on;
            if (__builtin_sub_overflow(i, 1, &up) || __builtin_sub_overflow(j, 1, &back)) return -1;
            ADD(i, 1, &down); ADD(j, 1, &on);
            CELL(x, up, j, above); CELL(x, down, j, below); CELL(x, i, back, left); CELL(x, i, on, right);
            CELL(y, i, j, here);
            *here = 0.25 * (*above + *below + *left + *right);
            sum += *here;
        }
    }
    return sum;
}

i64 counted(const i64 *x, i64 count, i64 distance, i64 most) {
    i64 found = 0;
    for (i64 i = 0; i < count; i++) {
        i64 at;
        AT(i, count, at);
        if (x[at * distance] < most) { ADD(found, x[at * distance], &found); }
        else if (__builtin_sub_overflow(found, 1, &found)) return -1;
    }
    return found;
}

static i64 sieved(i64 n, i64 **out, i64 *count) {
    bool *composite = calloc(n, sizeof(bool));
    if (!composite) return -1;
    *count = 0;
    for (i64 i = 2; i < n; i++) {
        i64 at, j;
        AT(i, n, at);
        if (composite[at]) continue;
        ADD(*count, 1, count);
        MUL(i, i, &j);
        while (j < n) {
            AT(j, n, at);
            composite[at] = true;
            ADD(j, i, &j);
        }
    }
    i64 *found = calloc(*count, sizeof(i64)), k = 0;
    if (!found) return -1;
    for (i64 i = 2; i < n; i++) {
        i64 at;
        AT(i, n, at);
        if (composite[at]) continue;
        AT(k, *count, at);
        found[at] = i;
        ADD(k, 1, &k);
    }
    free(composite);
    *out = found;
    return 0;
}

i64 primes(i64 n) {
    i64 sum = 0, count, *found;
    if (sieved(n, &found, &count)) return -1;
    for (i64 k = 0; k < count; k++) ADD(sum, found[k], &sum);
    free(found);
    return sum;
}

double spreading(i64 n, i64 turns) {
    double *now = calloc(n, sizeof(double)), *next = calloc(n, sizeof(double));
    i64 at, last;
    AT(n / 2, n, at);
    now[at] = 1.0;
    if (__builtin_sub_overflow(n, 1, &last)) return -1;
    for (i64 t = 0; t < turns; t++) {
        for (i64 i = 1; i < last; i++) {
            i64 back, on, here, left, right;
            if (__builtin_sub_overflow(i, 1, &back)) return -1;
            ADD(i, 1, &on);
            AT(back, n, left); AT(i, n, at); AT(on, n, right); AT(i, n, here);
            next[here] = 0.25 * now[left] + 0.5 * now[at] + 0.25 * now[right];
        }
        double *held = now;
        now = next;
        next = held;
    }
    AT(n / 2, n, at);
    double found = now[at];
    free(now);
    free(next);
    return found;
}
