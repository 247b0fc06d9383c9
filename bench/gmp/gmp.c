/*
 * gmp: what F(N) and its decimal digits cost with GMP, which many take for the fastest there is.
 *
 *   gmp N RUNS
 *
 * The value by mpz_fib_ui, the digits by mpz_get_str into memory that is there already. A first run is
 * not counted. It prints one line of JSON: GMP's version, the number of digits, the first and last
 * ten, and the nanoseconds of each run. It is for comparison only: weir itself uses no GMP.
 */
#define _GNU_SOURCE
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void list(const char *name, const long long *ns, long runs) {
	printf(",\"%s\":[", name);
	for (long i = 0; i < runs; i++)
		printf(i ? ",%lld" : "%lld", ns[i]);
	printf("]");
}

static unsigned long number(const char *s, unsigned long hi) {
	char *end;
	unsigned long v = strtoul(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || v > hi) {
		fprintf(stderr, "gmp: a number up to %lu was expected, got %s\n", hi, s);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fprintf(stderr, "usage: gmp N RUNS\n");
		return 2;
	}
	unsigned long n = number(argv[1], 4294967295UL), runs = number(argv[2], 10000);
	if (runs == 0) {
		fprintf(stderr, "gmp: RUNS is 1 or more\n");
		return 2;
	}
	char *text = malloc(n / 4 + 16); /* F(n) has 0.209 n digits */
	long long *value = malloc(runs * sizeof *value), *digits = malloc(runs * sizeof *digits);
	if (!text || !value || !digits) {
		perror("gmp: malloc");
		return 1;
	}
	for (long i = -1; i < (long)runs; i++) {
		mpz_t f;
		mpz_init(f);
		long long t0 = now();
		mpz_fib_ui(f, n);
		long long t1 = now();
		mpz_get_str(text, 10, f);
		long long t2 = now();
		mpz_clear(f);
		if (i >= 0) {
			value[i] = t1 - t0;
			digits[i] = t2 - t1;
		}
	}
	size_t len = strlen(text);
	printf("{\"version\":\"%s\",\"digits\":%zu,\"first\":\"%.10s\",\"last\":\"%s\"",
		gmp_version, len, text, len > 10 ? text + len - 10 : text);
	list("value_ns", value, runs);
	list("text_ns", digits, runs);
	printf("}\n");
	return 0;
}
