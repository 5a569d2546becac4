/*
 * The element-wise steps of a transformer, for training on a CPU. Each step
 * reads and writes its tensors once. PyTorch reads and writes memory several
 * times for each step, and is slow with bfloat16. Tensors are contiguous
 * bfloat16; sums are float. fused.py builds this file and calls its functions
 * if the machine has a C compiler.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t bf16;

static inline float get(bf16 x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline bf16 put(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* exp(x) in a form that compilers vectorize: 2^n e^r, where x = n ln 2 + r and
 * e^r is a polynomial. The relative error is below 1e-6 for x from -87 to
 * 87. */
static inline float exp_fast(float x)
{
	float t, n, r, p;
	int32_t bits;

	x = x < -87 ? -87 : x > 87 ? 87 : x;
	t = x * 1.44269504f;
	n = floorf(t + 0.5f);
	r = (t - n) * 0.693147181f;
	p = 1 +
		r *
			(1 +
				r *
					(0.5f +
						r *
							(0.166666667f +
								r *
									(0.0416666667f +
										r *
											(0.00833333333f +
												r * 0.00138888889f)))));
	bits = ((int32_t)n + 127) << 23;
	memcpy(&t, &bits, sizeof(t));
	return p * t;
}

/* y = silu(g) * u */
void swiglu(const bf16 *g, const bf16 *u, bf16 *y, int64_t n)
{
#pragma omp parallel for simd schedule(static)
	for (int64_t i = 0; i < n; i++) {
		float a = get(g[i]);

		y[i] = put(a / (1 + exp_fast(-a)) * get(u[i]));
	}
}

void swiglu_back(const bf16 *g, const bf16 *u, const bf16 *dy, bf16 *dg,
	bf16 *du, int64_t n)
{
#pragma omp parallel for simd schedule(static)
	for (int64_t i = 0; i < n; i++) {
		float a = get(g[i]), d = get(dy[i]);
		float s = 1 / (1 + exp_fast(-a));

		dg[i] = put(d * get(u[i]) * s * (1 + a * (1 - s)));
		du[i] = put(d * a * s);
	}
}

/* y = x / rms(x) * w; scale[row] = 1 / rms. */
void rms_norm(const bf16 *x, const float *w, float epsilon, bf16 *y,
	float *scale, int64_t rows, int64_t width)
{
#pragma omp parallel for schedule(static)
	for (int64_t r = 0; r < rows; r++) {
		const bf16 *in = x + r * width;
		float sum = 0, s;

#pragma omp simd reduction(+ : sum)
		for (int64_t i = 0; i < width; i++)
			sum += get(in[i]) * get(in[i]);
		scale[r] = s = 1 / sqrtf(sum / (float)width + epsilon);
#pragma omp simd
		for (int64_t i = 0; i < width; i++)
			y[r * width + i] = put(get(in[i]) * s * w[i]);
	}
}

/* The gradients of rms_norm. The rows are divided into `parts` parts. The
 * gradient of w, summed over the rows of part p, is added to dw[p] [width]. */
void rms_norm_back(const bf16 *x, const float *w, const float *scale,
	const bf16 *dy, bf16 *dx, float *dw, int64_t rows, int64_t width,
	int64_t parts)
{
#pragma omp parallel for schedule(static)
	for (int64_t p = 0; p < parts; p++) {
		float *mine = dw + p * width;

		for (int64_t r = rows * p / parts; r < rows * (p + 1) / parts;
			r++) {
			const bf16 *in = x + r * width, *d = dy + r * width;
			float s = scale[r], dot = 0;

#pragma omp simd reduction(+ : dot)
			for (int64_t i = 0; i < width; i++)
				dot += get(in[i]) * get(d[i]) * w[i];
			dot *= s * s / (float)width;
#pragma omp simd
			for (int64_t i = 0; i < width; i++) {
				float a = get(in[i]), g = get(d[i]);

				mine[i] += g * a * s;
				dx[r * width + i] =
					put(s * (g * w[i] - a * dot));
			}
		}
	}
}

/*
 * Rotate pairs of values of x [rows][length][heads][width] (rotary position
 * embedding). The arrays cosine and sine [length][width / 2] have the cosines
 * and sines of the angles. With `sign` -1 the rotation is reversed.
 */
void rotate(const bf16 *x, const float *cosine, const float *sine, float sign,
	bf16 *y, int64_t rows, int64_t length, int64_t heads, int64_t width)
{
	int64_t half = width / 2;

#pragma omp parallel for schedule(static)
	for (int64_t rt = 0; rt < rows * length; rt++) {
		const float *c = cosine + rt % length * half;
		const float *s = sine + rt % length * half;

		for (int64_t h = 0; h < heads; h++) {
			const bf16 *in = x + (rt * heads + h) * width;
			bf16 *out = y + (rt * heads + h) * width;

#pragma omp simd
			for (int64_t i = 0; i < half; i++) {
				float a = get(in[2 * i]),
				      b = get(in[2 * i + 1]);

				out[2 * i] = put(a * c[i] - b * s[i] * sign);
				out[2 * i + 1] =
					put(b * c[i] + a * s[i] * sign);
			}
		}
	}
}
