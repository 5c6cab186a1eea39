// SPDX-License-Identifier: Apache-2.0
/* Gives the daemon's AF_XDP sockets all packets that are not for the host itself. */
#include "steer.h"

SEC("xdp.frags")
int steer(struct xdp_md *context)
{
	const void *end = (void *)(long)context->data_end;
	const struct ethhdr *ethernet = (void *)(long)context->data;

	if ((const void *)(ethernet + 1) > end || is_for_stack(ethernet, end))
		return XDP_PASS;
	return to_socket(context);
}

char LICENSE[] SEC("license") = "Apache-2.0";
