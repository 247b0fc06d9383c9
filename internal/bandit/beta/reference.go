package beta

import "math"

// This file is the reference: the method as the package comment has it, one sample at a time, and what
// Seeded draws. Its results must be the same everywhere. So products that something is added to are
// converted to float64, which forbids the compiler to fuse the two, and logarithms and powers are from
// elementary.go: those of package math are different things on different processors.

// beta returns a sample for shapes in [MinShape, MaxShape].
func (g *source) beta(a, b float64) float64 {
	x, ex := g.gamma(a)
	y, ey := g.gamma(b)
	return ratio(x, y, ex-ey)
}

// ratio returns x e^t / (x e^t + y) for x, y > 0 without overflow, whatever t is.
func ratio(x, y, t float64) float64 {
	if t < 0 {
		x = float64(x * exp(t))
	} else if t > 0 {
		y = float64(y * exp(-t))
	}
	return x / (x + y)
}

// gamma returns a sample x e^exponent of the Gamma distribution, with an exponent other than zero for
// shapes below one.
func (g *source) gamma(shape float64) (x, exponent float64) {
	if shape < 1 {
		exponent = log(g.uniform()) / shape
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := g.normal()
		y := float64(c * x)
		if y <= -1 {
			continue
		}
		// The density of a normal x, times what this is the logarithm of, is proportional to that of the x
		// we want.
		if log(g.uniform()) < float64(d*deficit(y)) {
			t := 1 + y
			return float64(d * t * t * t), exponent
		}
	}
}

// deficit returns 3 log(1+y) - 3y + 3y^2/2 - y^3 for y > -1. It is never positive. With v = (1+y)^3 and y =
// cx, it times d is x^2/2 + d - dv + d log v, the logarithm of Marsaglia and Tsang's probability, without
// its cancellation: theirs is a difference of numbers as great as d, this one of numbers near its square
// root, and where y is small none at all.
func deficit(y float64) float64 {
	if math.Abs(y) < 1.0/16 {
		// The series of the logarithm from its fourth term on.
		sum := 0.0
		for k := 16; k >= 4; k-- {
			sum = 3/float64(k) - float64(y*sum)
		}
		return -float64(float64(y*y)*float64(y*y)) * sum
	}
	return float64(3*log(1+y)) - float64(y*(3+float64(y*(y-1.5))))
}

// normal returns a sample of the normal distribution by Marsaglia's polar method.
func (g *source) normal() float64 {
	for {
		u := float64(2*g.uniform()) - 1
		v := float64(2*g.uniform()) - 1
		s := float64(u*u) + float64(v*v)
		if s < 1 {
			return u * math.Sqrt(-2*log(s)/s)
		}
	}
}
