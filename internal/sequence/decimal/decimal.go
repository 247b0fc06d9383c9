// Package decimal does arithmetic on natural numbers that are kept in decimal, and computes Fibonacci
// numbers.
//
// A number is a []byte of ASCII digits, the most significant first, without a sign and without leading
// zeros; zero is "0". That is what a client is sent, so a step of the sequence and its text are one pass
// over the digits, and nothing is ever converted from binary, which costs more than computing the number
// did. All other input is the caller's error: results are then meaningless, though nothing outside dst is
// written and nothing faults.
//
// Add, Sub and Mul append to dst and return it, as append does. Add and Sub allocate nothing if dst has
// room for the digits of the longer operand, and one more for Add. Mul needs memory of its own, some eight
// bytes a digit of the product, and room for about twenty digits more than the product has. The memory of
// dst beyond its length must not overlap an operand. All functions may be called concurrently.
//
// # Steps
//
// Add and Sub are computed a digit at a time by the reference, eight digits a word everywhere (add.go), and
// sixty-four digits a vector in assembly where the processor has AVX-512 (add_amd64.s). The carry of a word
// is that of an ordinary addition of bytes with a bias of 0xF6 (D. W. Jones, "BCD Arithmetic, a tutorial",
// 1999). A vector takes eight words whose carries do not wait for each other; where that is not possible,
// one addition of two 64-bit masks, of the digits that generate a carry and of those that pass one on,
// takes it through all sixty-four.
//
// # Products
//
// Long products are computed by a complex floating-point Fourier transform over digits in base 10^4, 10^3
// or 10^2, chosen so that the result is exact by proof: see transform.go for the bound and where it comes
// from. It is compared with the digits at hand before each product, so exactness does not rest on digits
// being random. Short products are computed digit by digit in base 10^9.
//
// # Fibonacci numbers
//
// Fibonacci doubles its way up from L(m) and F(m), the Lucas and Fibonacci numbers of the leading bits of
// n, by one complex square a bit:
//
//	(L + 2iF)^2 = (L^2 - 4F^2) + 4i LF
//	F(2m) = LF,  L(2m) = 5(L^2 - 4F^2) - 18(-1)^m,  using L^2 - 5F^2 = 4(-1)^m
//
// Both parts of the transform carry a number that is needed, so a bit costs two transforms, which have the
// length of the product and no reordering or packing passes; and the sums by which an odd bit is added are
// taken on the coefficients before carries are, so they cost nothing. See fibonacci.go.
package decimal
