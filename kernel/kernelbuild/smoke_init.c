/*
 * The first program of the smoke boot: it sleeps a virtual minute, shows that
 * this took exactly that long by the clock, draws random bytes, and halts.
 */
#include <stdio.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void)
{
	const struct timespec minute = { .tv_sec = 60 };
	unsigned char bytes[8] = { 0 };
	long long before, after;
	ssize_t got;

	before = now_ns();
	nanosleep(&minute, NULL);
	after = now_ns();
	got = getrandom(bytes, sizeof(bytes), 0);
	printf("smoke slept_ns=%lld random=", after - before);
	for (ssize_t i = 0; i < got; i++)
		printf("%02x", bytes[i]);
	printf(" end\n");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
