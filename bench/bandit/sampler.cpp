//go:build cgo

// Beta samples the usual way: X / (X + Y) of two gamma samples of the standard library's.

#include "sampler.h"

#include <random>

namespace {

// A distribution that is kept has the second one of each pair of normal samples ready.
struct Sampler {
	std::mt19937_64 engine{std::random_device{}()};
	std::gamma_distribution<double> gamma;

	double sample(double shape) {
		return gamma(engine, std::gamma_distribution<double>::param_type(shape, 1.0));
	}
};

thread_local Sampler sampler;

} // namespace

void sample_beta(double *scores, const double *alpha, const double *beta, size_t n) {
	Sampler &s = sampler;
	for (size_t i = 0; i < n; i++) {
		const double x = s.sample(alpha[i]);
		const double y = s.sample(beta[i]);
		scores[i] = x / (x + y);
	}
}
