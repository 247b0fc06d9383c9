/*
 * floor: the least an HTTP answer can cost on this machine.
 *
 * One thread, level-triggered epoll, accept4, read, send. Every request gets the same answer of
 * --body bytes: 81 by default, ten item ids as the feed writes them; 20,926 are what the sequence
 * answers at index 100,000. The only thing it does with a request is to find its end, an empty
 * line, so it is a price tag and not a server: no request body, no errors, no timeouts. All
 * requests that one read brings are answered by one send.
 *
 * It prints "listening on 127.0.0.1:PORT" once it accepts connections.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	EVENTS = 256,
	READ_BYTES = 64 << 10,
	MAX_FD = 1 << 16,
	SHORTEST = 16,     /* bytes of the shortest request there is: "GET / HTTP/1.1\r\n" and more */
	MAX_BODY = 1 << 20,
};

/* What a connection carries over from one read to the next. */
struct conn {
	unsigned char matched; /* bytes of "\r\n\r\n" seen at the end of the input */
	size_t owed;           /* bytes of answers the socket had no room for */
	size_t at;             /* where in an answer they begin */
};

static struct conn conns[MAX_FD];
static char input[READ_BYTES];
static char *answers; /* copies of the answer: as many as one read can ask for, or 8 MiB of them */
static size_t answer_len, answers_len;

static void die(const char *what) {
	perror(what);
	exit(1);
}

/*
 * count_requests returns how many requests end within the n bytes at p. An end that is split
 * over two reads is found byte by byte, all others by memmem.
 */
static int count_requests(struct conn *c, const char *p, size_t n) {
	static const char end[] = "\r\n\r\n";
	const char *stop = p + n;
	unsigned m = c->matched;
	int found = 0;
	for (; p < stop && m > 0; p++) {
		m = *p == end[m] ? m + 1 : *p == '\r';
		if (m == 4) {
			found++;
			m = 0;
		}
	}
	for (const char *at; (at = memmem(p, stop - p, end, 4)); p = at + 4)
		found++;
	if (stop - p > 3)
		p = stop - 3;
	for (; p < stop; p++)
		m = *p == end[m] ? m + 1 : *p == '\r';
	c->matched = m;
	return found;
}

/*
 * prepare writes the answer's copies. A read of READ_BYTES asks for at most READ_BYTES / SHORTEST
 * answers; of large bodies there are fewer copies than that, and what one send cannot bring the
 * next ones do.
 */
static void prepare(size_t body) {
	char head[256];
	int head_len = snprintf(head, sizeof head,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
		"Content-Length: %zu\r\n\r\n", body);
	answer_len = head_len + body;
	size_t copies = READ_BYTES / SHORTEST;
	if (copies * answer_len > (8 << 20))
		copies = (8 << 20) / answer_len;
	if (copies == 0)
		copies = 1;
	answers_len = copies * answer_len;
	answers = malloc(answers_len);
	if (!answers)
		die("malloc");
	char *one = answers;
	memcpy(one, head, head_len);
	/* A JSON array of one number, as long as asked for. */
	memset(one + head_len, '1', body);
	one[head_len] = '[';
	one[answer_len - 1] = ']';
	for (size_t i = 1; i < copies; i++)
		memcpy(answers + i * answer_len, one, answer_len);
}

static void drop(int fd) {
	conns[fd] = (struct conn){0};
	close(fd); /* which takes it out of the epoll set */
}

static void watch(int epfd, int op, int fd, unsigned events) {
	struct epoll_event ev = {.events = events, .data.fd = fd};
	if (epoll_ctl(epfd, op, fd, &ev) < 0)
		die("epoll_ctl");
}

/*
 * send_owed sends what is owed as far as the socket takes it, straight from the copies, and
 * returns 0 if the connection is lost.
 */
static int send_owed(int fd) {
	struct conn *c = &conns[fd];
	size_t len = answers_len - c->at;
	if (len > c->owed)
		len = c->owed;
	ssize_t sent = send(fd, answers + c->at, len, MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return 1;
		drop(fd);
		return 0;
	}
	c->owed -= sent;
	c->at = (c->at + sent) % answer_len;
	return 1;
}

static void on_writable(int epfd, int fd) {
	if (send_owed(fd) && conns[fd].owed == 0)
		watch(epfd, EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void on_readable(int epfd, int fd) {
	ssize_t n = read(fd, input, sizeof input);
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			drop(fd);
		return;
	}
	int requests = count_requests(&conns[fd], input, n);
	if (requests == 0)
		return;
	conns[fd].owed = requests * answer_len;
	if (send_owed(fd) && conns[fd].owed > 0)
		watch(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT);
}

static void accept_all(int epfd, int lfd) {
	for (;;) {
		int fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if (fd >= MAX_FD) {
			close(fd);
			continue;
		}
		int on = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		watch(epfd, EPOLL_CTL_ADD, fd, EPOLLIN);
	}
}

static long number(const char *s, const char *flag, long lo, long hi) {
	char *end;
	long v = strtol(s, &end, 10);
	if (*s == 0 || *end || v < lo || v > hi) {
		fprintf(stderr, "floor: %s takes %ld to %ld, got %s\n", flag, lo, hi, s);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv) {
	long port = 0, body = 81;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--port"))
			port = number(argv[i + 1], "--port", 0, 65535);
		else if (i + 1 < argc && !strcmp(argv[i], "--body"))
			body = number(argv[i + 1], "--body", 2, MAX_BODY);
		else {
			fprintf(stderr, "usage: floor [--port P] [--body BYTES]\n");
			return 2;
		}
	}
	prepare(body);

	struct rlimit files = {MAX_FD, MAX_FD};
	setrlimit(RLIMIT_NOFILE, &files); /* best effort: fewer connections otherwise */

	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (lfd < 0)
		die("socket");
	int on = 1;
	setsockopt(lfd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	if (bind(lfd, (struct sockaddr *)&addr, sizeof addr) < 0)
		die("bind");
	if (listen(lfd, 4096) < 0)
		die("listen");
	socklen_t len = sizeof addr;
	if (getsockname(lfd, (struct sockaddr *)&addr, &len) < 0)
		die("getsockname");

	int epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epfd < 0)
		die("epoll_create1");
	watch(epfd, EPOLL_CTL_ADD, lfd, EPOLLIN);
	printf("listening on 127.0.0.1:%d\n", ntohs(addr.sin_port));
	fflush(stdout);

	struct epoll_event events[EVENTS];
	for (;;) {
		int n = epoll_wait(epfd, events, EVENTS, -1);
		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd == lfd)
				accept_all(epfd, lfd);
			else if (conns[fd].owed > 0)
				on_writable(epfd, fd);
			else
				on_readable(epfd, fd);
		}
	}
}
