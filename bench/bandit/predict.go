//go:build cgo

package main

import "context"

// predictor samples what a store knows of the items.
type predictor struct{ store featureStore }

// predict returns a sample of the posterior of each item. An item that the store does not know has the
// uniform prior, Beta(1, 1).
func (p *predictor) predict(ctx context.Context, items []string) ([]float64, error) {
	known, err := fetchAll(ctx, p.store, items)
	if err != nil {
		return nil, err
	}
	// One allocation for the three.
	n := len(items)
	all := make([]float64, 3*n)
	alpha, beta, scores := all[:n:n], all[n:2*n:2*n], all[2*n:]
	for i, item := range items {
		f, ok := known[item]
		if !ok {
			alpha[i], beta[i] = 1, 1
			continue
		}
		alpha[i], beta[i] = f["alpha"], f["beta"]
	}
	sample(scores, alpha, beta)
	return scores, nil
}
