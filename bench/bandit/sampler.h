//go:build cgo

// Beta samples, for Go.

#include <stddef.h>

#ifdef __cplusplus
extern "C"
#endif
void sample_beta(double *scores, const double *alpha, const double *beta, size_t n);
