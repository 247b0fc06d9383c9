//go:build cgo

package main

/*
#cgo CXXFLAGS: -O3 -std=c++17 -Wall -Wextra
#include "sampler.h"
*/
import "C"

// sample sets scores[i] to a sample of Beta(alpha[i], beta[i]). The slices have one length, which is not 0.
func sample(scores, alpha, beta []float64) {
	C.sample_beta((*C.double)(&scores[0]), (*C.double)(&alpha[0]), (*C.double)(&beta[0]),
		C.size_t(len(scores)))
}
