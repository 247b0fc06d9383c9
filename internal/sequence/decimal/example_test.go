package decimal_test

import (
	"context"
	"fmt"

	"weir/internal/sequence/decimal"
)

func Example() {
	f, previous, err := decimal.Fibonacci(context.Background(), 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	next := decimal.Add(nil, f, previous)
	fmt.Printf("%s\n%s\n%s\n", previous, f, next)
	fmt.Println(decimal.Digits(1_000_000), "digits")
	// Output:
	// 218922995834555169026
	// 354224848179261915075
	// 573147844013817084101
	// 208988 digits
}
