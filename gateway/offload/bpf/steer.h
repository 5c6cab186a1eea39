/* SPDX-License-Identifier: Apache-2.0 */
/* What both programs do with a packet that is not forwarded here: to the daemon's AF_XDP socket, or to the stack. */
#ifndef GATEWAY_STEER_H
#define GATEWAY_STEER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* One for each queue of the interface. A socket that is closed leaves the map by itself. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* The host's own addresses, IPv4 as ::ffff:a.b.c.d. What is for them is the stack's. */
struct address {
	__be32 words[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct address);
	__type(value, __u8);
} own SEC(".maps");

/* Set before loading: put the time of arrival (CLOCK_MONOTONIC, ns) before each frame. */
const volatile __u8 stamp_arrivals = 0;

/* Whether a packet is the stack's: broadcasts and multicasts, ARP, and what is for the host itself. */
static __always_inline int is_for_stack(const struct ethhdr *ethernet, const void *end)
{
	struct address address = {};

	if (ethernet->h_dest[0] & 1)
		return 1;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		const struct iphdr *ip = (const void *)(ethernet + 1);

		if ((const void *)(ip + 1) > end)
			return 0;
		address.words[2] = bpf_htonl(0xffff);
		address.words[3] = ip->daddr;
	} else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = (const void *)(ethernet + 1);

		if ((const void *)(ip + 1) > end)
			return 0;
		for (int i = 0; i < 4; i++)
			address.words[i] = ip->daddr.in6_u.u6_addr32[i];
	} else {
		return ethernet->h_proto == bpf_htons(ETH_P_ARP);
	}
	return bpf_map_lookup_elem(&own, &address) != NULL;
}

static __always_inline int to_socket(struct xdp_md *context)
{
	if (stamp_arrivals && bpf_xdp_adjust_meta(context, -(int)sizeof(__u64)) == 0) {
		void *data = (void *)(long)context->data;
		__u64 *stamp = (void *)(long)context->data_meta;

		if ((void *)(stamp + 1) <= data)
			*stamp = bpf_ktime_get_ns();
	}
	/* Without a socket (the daemon is not running) the stack gets the packet. */
	return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
}

#endif
