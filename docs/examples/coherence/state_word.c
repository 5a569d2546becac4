/*
 * A state word that the CPU writes, and a payload that the device writes, share
 * one cache line. When the device cleans the line, it also writes back its old
 * copy of the state word, and so overwrites the CPU's new state.
 */
#include "demo.h"

enum state { RUNNING = 1, CANCELLED };

int main(int argc, char **argv)
{
	uint32_t state = RUNNING, payload;
	struct demo d;

	demo_open(&d, argc, argv);
	payload = d.right ? COHERENCE_LINE : sizeof(state);
	memcpy(d.cpu, &state, sizeof(state));
	coherence_operator(d.cache, "results", -1);
	memset(demo_write(&d, payload, 32), 7, 32);
	state = CANCELLED;
	/* the CPU writes after the device has cached the line */
	memcpy(d.cpu, &state, sizeof(state));
	demo_clean(&d, payload, 32);
	memcpy(&state, d.cpu, sizeof(state));
	printf("the CPU wrote state %d, and it is %u\n", CANCELLED, state);
	return demo_close(&d);
}
