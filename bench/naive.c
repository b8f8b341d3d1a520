/* The peer: each kernel as C programmers write it first, with OpenMP on the outermost loop. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t n_t;

void relu(const float *x, float *y, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < n; i++) y[i] = fmaxf(x[i] * 1.5f + 0.25f, 0.0f);
}

void gelu(const float *x, float *y, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1.0f + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

void total(const float *x, float *y, n_t n) {
    float s = 0;
#pragma omp parallel for simd reduction(+ : s)
    for (n_t i = 0; i < n; i++) s += x[i];
    *y = s;
}

void column_sums(const float *x, float *y, n_t m, n_t n) {
    memset(y, 0, n * sizeof(float));
    for (n_t i = 0; i < m; i++)
        for (n_t j = 0; j < n; j++) y[j] += x[i * n + j];
}

void argmax(const float *x, n_t *y, n_t n) {
    n_t best = 0;
    for (n_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    *y = best;
}

void matmul(const float *a, const float *b, float *c, n_t m, n_t n, n_t k) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++)
        for (n_t j = 0; j < n; j++) {
            float s = 0;
            for (n_t p = 0; p < k; p++) s += a[i * k + p] * b[p * n + j];
            c[i * n + j] = s;
        }
}

void batched(const float *a, const float *b, float *c, n_t g, n_t m, n_t n, n_t k) {
#pragma omp parallel for
    for (n_t q = 0; q < g; q++)
        for (n_t i = 0; i < m; i++)
            for (n_t j = 0; j < n; j++) {
                float s = 0;
                for (n_t p = 0; p < k; p++) s += a[(q * m + i) * k + p] * b[(q * k + p) * n + j];
                c[(q * m + i) * n + j] = s;
            }
}

void conv2d(const float *x, const float *w, float *y, n_t b, n_t c, n_t h, n_t v, n_t f) {
#pragma omp parallel for
    for (n_t n = 0; n < b; n++)
        for (n_t o = 0; o < f; o++)
            for (n_t i = 0; i < h; i++)
                for (n_t j = 0; j < v; j++) {
                    float s = 0;
                    for (n_t p = 0; p < c; p++)
                        for (n_t r = 0; r < 3; r++)
                            for (n_t q = 0; q < 3; q++) {
                                n_t a = i + r - 1, e = j + q - 1;
                                if (a >= 0 && a < h && e >= 0 && e < v) s += x[((n * c + p) * h + a) * v + e] * w[((o * c + p) * 3 + r) * 3 + q];
                            }
                    y[((n * f + o) * h + i) * v + j] = s;
                }
}

void depthwise(const float *x, const float *w, float *y, n_t b, n_t c, n_t h, n_t v) {
    n_t oh = h - 2, ow = v - 2;
#pragma omp parallel for
    for (n_t n = 0; n < b; n++)
        for (n_t p = 0; p < c; p++)
            for (n_t i = 0; i < oh; i++)
                for (n_t j = 0; j < ow; j++) {
                    float s = 0;
                    for (n_t r = 0; r < 3; r++)
                        for (n_t q = 0; q < 3; q++) s += x[((n * c + p) * h + i + r) * v + j + q] * w[(p * 3 + r) * 3 + q];
                    y[((n * c + p) * oh + i) * ow + j] = s;
                }
}

void attention(const float *q, const float *k, const float *v, float *o, n_t g, n_t m, n_t n, n_t d) {
#pragma omp parallel for
    for (n_t h = 0; h < g; h++) {
        float *s = malloc(n * sizeof(float));
        for (n_t i = 0; i < m; i++) {
            float top = -INFINITY, sum = 0;
            for (n_t j = 0; j < n; j++) {
                float t = 0;
                for (n_t c = 0; c < d; c++) t += q[(h * m + i) * d + c] * k[(h * n + j) * d + c];
                s[j] = t * 0.125f;
                top = fmaxf(top, s[j]);
            }
            for (n_t j = 0; j < n; j++) {
                s[j] = expf(s[j] - top);
                sum += s[j];
            }
            for (n_t c = 0; c < d; c++) {
                float t = 0;
                for (n_t j = 0; j < n; j++) t += s[j] * v[(h * n + j) * d + c];
                o[(h * m + i) * d + c] = t / sum;
            }
        }
        free(s);
    }
}

void softmax(const float *x, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        const float *r = x + i * n;
        float *t = y + i * n, top = -INFINITY, sum = 0;
        for (n_t j = 0; j < n; j++) top = fmaxf(top, r[j]);
        for (n_t j = 0; j < n; j++) {
            t[j] = expf(r[j] - top);
            sum += t[j];
        }
        for (n_t j = 0; j < n; j++) t[j] /= sum;
    }
}

void scan(const float *x, float *y, n_t n) {
    float s = 0;
    for (n_t i = 0; i < n; i++) y[i] = s += x[i];
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void sort(const float *x, float *y, n_t n) {
    memcpy(y, x, n * sizeof(float));
    qsort(y, n, sizeof(float), ascending);
}

void transpose(const float *x, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < n; i++)
        for (n_t j = 0; j < m; j++) y[i * m + j] = x[j * n + i];
}

void histogram(const uint8_t *x, int32_t *y, n_t n) {
    memset(y, 0, 256 * sizeof(int32_t));
#pragma omp parallel
    {
        int32_t bins[256] = {0};
#pragma omp for
        for (n_t i = 0; i < n; i++) bins[x[i]]++;
#pragma omp critical
        for (int b = 0; b < 256; b++) y[b] += bins[b];
    }
}

void matmul_f64(const double *a, const double *b, double *c, n_t m, n_t n, n_t k) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++)
        for (n_t j = 0; j < n; j++) {
            double s = 0;
            for (n_t p = 0; p < k; p++) s += a[i * k + p] * b[p * n + j];
            c[i * n + j] = s;
        }
}

void matrix_vector(const float *a, const float *x, float *y, n_t m, n_t k) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        float s = 0;
        for (n_t p = 0; p < k; p++) s += a[i * k + p] * x[p];
        y[i] = s;
    }
}

void vector_matrix(const float *x, const float *a, float *y, n_t k, n_t n) {
#pragma omp parallel for
    for (n_t j = 0; j < n; j++) {
        float s = 0;
        for (n_t p = 0; p < k; p++) s += x[p] * a[p * n + j];
        y[j] = s;
    }
}

void row_sums(const float *x, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (n_t j = 0; j < n; j++) s += x[i * n + j];
        y[i] = s;
    }
}

void row_maxima(const float *x, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        float s = -INFINITY;
        for (n_t j = 0; j < n; j++) s = x[i * n + j] > s ? x[i * n + j] : s;
        y[i] = s;
    }
}

void layernorm(const float *x, const float *g, const float *b, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        const float *r = x + i * n;
        float s = 0, v = 0;
        for (n_t j = 0; j < n; j++) s += r[j];
        float mean = s / n;
        for (n_t j = 0; j < n; j++) v += (r[j] - mean) * (r[j] - mean);
        float scale = 1.0f / sqrtf(v / n + 0.00001f);
        for (n_t j = 0; j < n; j++) y[i * n + j] = (r[j] - mean) * scale * g[j] + b[j];
    }
}

void column_scan(const float *x, float *y, n_t m, n_t n) {
    for (n_t j = 0; j < n; j++) y[j] = x[j];
    for (n_t i = 1; i < m; i++)
        for (n_t j = 0; j < n; j++) y[i * n + j] = y[(i - 1) * n + j] + x[i * n + j];
}

void sort_rows(const float *x, float *y, n_t m, n_t n) {
    memcpy(y, x, m * n * sizeof(float));
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) qsort(y + i * n, n, sizeof(float), ascending);
}

void gather(const float *x, const int32_t *at, float *y, n_t n, n_t m) {
    int bad = 0;
#pragma omp parallel for reduction(| : bad)
    for (n_t i = 0; i < m; i++) {
        n_t p = at[i];
        if (p < 0 || p >= n)
            bad = 1;
        else
            y[i] = x[p] * 2.0f;
    }
    if (bad) abort();
}

void bytes(const uint8_t *x, uint8_t *y, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < n; i++) y[i] = x[i] / 2 + 3;
}

void update(float *x, float *unused, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < n; i++) x[i] = x[i] * 0.5f + 1.0f;
}

void strided(const float *x, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++)
        for (n_t j = 0; j < n; j++) y[i * n + j] = x[i * 2 * n + j] * 2.0f + 1.0f;
}

void mandelbrot(const float *z, int32_t *out, n_t h, n_t w) {
#pragma omp parallel for
    for (n_t y = 0; y < h; y++)
        for (n_t x = 0; x < w; x++) {
            float cr = (float)x / w * 3.0f - 2.0f, ci = (float)y / h * 2.0f - 1.0f, zr = z[y * w + x], zi = 0;
            int32_t n = 0;
            while (zr * zr + zi * zi < 4.0f && n < 100) {
                float t = zr * zr - zi * zi + cr;
                zi = 2.0f * zr * zi + ci;
                zr = t;
                n++;
            }
            out[y * w + x] = n;
        }
}

void heat(const float *x, float *y, n_t m, n_t n) {
    memset(y, 0, n * sizeof(float));
    memset(y + (m - 1) * n, 0, n * sizeof(float));
#pragma omp parallel for
    for (n_t i = 1; i < m - 1; i++) {
        y[i * n] = y[i * n + n - 1] = 0;
        for (n_t j = 1; j < n - 1; j++) y[i * n + j] = 0.25f * (x[(i - 1) * n + j] + x[(i + 1) * n + j] + x[i * n + j - 1] + x[i * n + j + 1]);
    }
}

void distances(const float *a, const float *b, float *y, n_t m, n_t n, n_t d) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++)
        for (n_t j = 0; j < n; j++) {
            float s = 0;
#pragma omp simd reduction(+ : s)
            for (n_t k = 0; k < d; k++) s += (a[i * d + k] - b[j * d + k]) * (a[i * d + k] - b[j * d + k]);
            y[i * n + j] = sqrtf(s);
        }
}

void blur(const float *x, float *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++)
        for (n_t j = 0; j < n; j++) {
            float s = 0;
            for (n_t r = 0; r < 5; r++)
                for (n_t q = 0; q < 5; q++) {
                    n_t v = i + r - 2, u = j + q - 2;
                    if (v >= 0 && v < m && u >= 0 && u < n) s += x[v * n + u];
                }
            y[i * n + j] = s * 0.04f;
        }
}

void pooled(const float *x, float *y, n_t c, n_t h, n_t w) {
#pragma omp parallel for
    for (n_t p = 0; p < c; p++)
        for (n_t i = 0; i < h / 2; i++)
            for (n_t j = 0; j < w / 2; j++) {
                const float *s = x + (p * h + 2 * i) * w + 2 * j;
                float m = s[0];
                m = s[1] > m ? s[1] : m;
                m = s[w] > m ? s[w] : m;
                y[(p * (h / 2) + i) * (w / 2) + j] = s[w + 1] > m ? s[w + 1] : m;
            }
}

void row_argmax(const float *x, n_t *y, n_t m, n_t n) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        n_t best = 0;
        for (n_t j = 1; j < n; j++)
            if (x[i * n + j] > x[i * n + best]) best = j;
        y[i] = best;
    }
}

void few_bits(const uint8_t *w, const float *x, const float *scale, float *y, n_t m, n_t k) {
#pragma omp parallel for
    for (n_t i = 0; i < m; i++) {
        float s = 0;
        for (n_t j = 0; j < k; j++) s += (float)w[i * k + j] * x[j];
        y[i] = s * scale[i];
    }
}
