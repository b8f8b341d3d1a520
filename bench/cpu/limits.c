/* What one or several cores can do at most: a copy, and chains of fused products in registers. */
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define WIDTH 64
#elif defined(__AVX2__)
#define WIDTH 32
#else
#define WIDTH 16
#endif

typedef float floats __attribute__((vector_size(WIDTH)));
typedef double doubles __attribute__((vector_size(WIDTH)));

/* Bytes of a vector. */
int64_t width(void) { return WIDTH; }

void copy(const char *restrict source, char *restrict target, int64_t bytes, int64_t threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t part = 0; part < threads; part++) {
        int64_t begin = bytes / threads * part, end = part + 1 == threads ? bytes : bytes / threads * (part + 1);
        memcpy(target + begin, source + begin, end - begin);
    }
}

#define CHAINS(NAME, VECTOR, TYPE)                                                                                   \
    void NAME(TYPE *result, int64_t turns, int64_t threads) {                                                        \
        _Pragma("omp parallel for num_threads(threads)") for (int64_t part = 0; part < threads; part++) {            \
            VECTOR s[12], a, b;                                                                                      \
            for (int i = 0; i < WIDTH / (int)sizeof(TYPE); i++) a[i] = result[0], b[i] = result[1];                     \
            for (int c = 0; c < 12; c++) s[c] = b + (TYPE)c;                                                         \
            for (int64_t t = 0; t < turns; t++)                                                                      \
                for (int c = 0; c < 12; c++) s[c] = s[c] * a + b;                                                    \
            for (int c = 1; c < 12; c++) s[0] += s[c];                                                               \
            result[2 + part] = s[0][0];                                                                              \
        }                                                                                                            \
    }

CHAINS(chains_f32, floats, float)
CHAINS(chains_f64, doubles, double)
