// Package decimal does arithmetic on natural numbers that are kept in decimal, and computes Fibonacci numbers.
//
// A number is a []byte of ASCII digits, the most significant first, without a sign and without leading zeros; zero is
// "0". That is what a client is sent, so a step of the sequence and its text are one pass over the digits, and nothing
// is ever converted from binary, which costs more than computing the number did. All other input is the caller's error:
// results are then meaningless, though nothing outside dst is written and nothing faults.
//
// Add, Sub and Mul append to dst and return it, as append does. They allocate only if dst has too little capacity; the
// capacity they need is that of the longer operand plus one for Add, of the longer for Sub, of both for Mul. The memory
// of dst beyond its length must not overlap an operand. All functions may be called concurrently.
//
// # Steps
//
// Add and Sub have three implementations with one meaning, in add.go: a digit at a time, which is the reference; eight
// digits a word, which runs everywhere; and sixty-four digits a vector in assembly (add_amd64.s), where the processor
// has AVX-512. The carry of a vector is one addition of two 64-bit numbers: every digit sum above nine generates
// one, every nine passes one on, and that is how carries run through an adder. (Warren, Hacker's Delight, chapter 2;
// the mask arithmetic is the well known one for big integers in SIMD.)
//
// # Products
//
// Long products are computed by a complex floating-point Fourier transform over digits in base 10^4, 10^3 or 10^2,
// chosen so that the result is exact by proof: see transform.go for the bound and where it comes from. It is compared
// with the digits at hand before each product, so exactness does not rest on digits being random. Short products are
// computed digit by digit in base 10^9.
//
// # Fibonacci numbers
//
// Fibonacci doubles its way up from L(m) and F(m), the Lucas and Fibonacci numbers of the leading bits of n, by one
// complex square a bit:
//
//	(L + 2iF)^2 = (L^2 - 4F^2) + 4i LF
//	F(2m) = LF,  L(2m) = 5(L^2 - 4F^2) - 18(-1)^m,  using L^2 - 5F^2 = 4(-1)^m
//
// Both parts of the transform carry a number that is needed, so a bit costs two transforms, which have the length of the
// product and no reordering or packing passes; and the sums by which an odd bit is added are taken on the coefficients
// before carries are, so they cost nothing. See fibonacci.go.
package decimal
