package beta_test

import (
	"fmt"

	"weir/internal/bandit/beta"
)

// Three arms: one that was never tried, one clicked 3 times of 50 and one clicked 800 times of 10,000.
func ExampleSeeded() {
	alpha := []float64{1, 1 + 3, 1 + 800}
	losses := []float64{1, 1 + 47, 1 + 9200}
	scores := make([]float64, 3)
	beta.Seeded(42, scores, alpha, losses)
	fmt.Printf("%.4f\n", scores)
	// Output: [0.1913 0.0743 0.0774]
}
