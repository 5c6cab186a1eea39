// SPDX-License-Identifier: Apache-2.0
/* Forwards known flows in the kernel; what it does not know, or does not do, goes to the daemon.
 *
 * A flow is one direction of a TCP or UDP conversation over IPv4 that comes in on one interface. The daemon decides on
 * its first packet and enters it into `flows`; from then on this program rewrites its packets' headers and redirects
 * them. Never forwarded here: fragments, IP options, tags, expired packets, packets longer than the egress's MTU, and
 * TCP's SYN, FIN and RST, so that the daemon sees where connections begin and end.
 */
#include <linux/tcp.h>
#include <linux/udp.h>

#include "steer.h"

#define MAX_FLOWS 65536 /* the daemon sets the number that it was asked for */
#define FRAGMENT_BITS 0x3fff /* more fragments follow, or an offset */
#define REWRITE_ADDRESSES 1

struct flow_key {
	__u32 ingress; /* interface index */
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 padding[3];
};

struct flow {
	__u32 egress; /* interface index, key of `devices` */
	__u32 slot; /* key of `flow_counters` */
	__u16 own_mac[3]; /* what the packet must be addressed to; in halves, as frames lie at even addresses only */
	__u16 new_macs[6]; /* destination, source */
	__u16 max_bytes; /* longest IP packet that the egress carries */
	__u16 flags;
	__be16 new_source_port;
	__be16 new_destination_port;
	__u16 padding;
	__be32 new_source;
	__be32 new_destination;
	__u16 ip_delta; /* what the changes add to the one's complement sums, in network byte order */
	__u16 transport_delta;
	__u64 cookie; /* the daemon's */
};

struct flow_count {
	__u64 packets;
	__u64 bytes;
	__u64 last_seen_ns; /* CLOCK_MONOTONIC, in steps of the kernel's tick */
};

enum outcome {
	HIT,
	MISS,
	STACK,
	TRUNCATED,
	NOT_IPV4,
	OPTIONS,
	FRAGMENT,
	OTHER_PROTOCOL,
	CONNECTION_CONTROL,
	NOT_OUR_MAC,
	EXPIRING,
	TOO_LONG,
	NO_EGRESS, /* its interface is gone: dropped */
	OUTCOMES,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct flow_count);
} flow_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OUTCOMES);
	__type(key, __u32);
	__type(value, __u64);
} outcomes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

static __always_inline void count(__u32 outcome)
{
	__u64 *counter = bpf_map_lookup_elem(&outcomes, &outcome);

	if (counter)
		*counter += 1;
}

/* RFC 1624, equation 3, with what the changed words add to the sum worked out beforehand. */
static __always_inline __u16 adjusted(__u16 checksum, __u32 delta)
{
	__u32 sum = (__u16)~checksum + delta;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline void rewrite(struct ethhdr *ethernet, struct iphdr *ip, void *end, const struct flow *flow)
{
	void *transport = ip + 1;
	__u16 *macs = (void *)ethernet;

	for (int i = 0; i < 6; i++)
		macs[i] = flow->new_macs[i];
	/* The word of time to live and protocol falls by one in its first byte: all ones less one is added to the sum. */
	ip->check = adjusted(ip->check, (__u32)flow->ip_delta + (__u16)~bpf_htons(0x0100));
	ip->ttl -= 1;
	if (!(flow->flags & REWRITE_ADDRESSES))
		return;
	ip->saddr = flow->new_source;
	ip->daddr = flow->new_destination;
	if (ip->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = transport;

		if ((void *)(tcp + 1) > end) /* never; the verifier has forgotten */
			return;
		tcp->source = flow->new_source_port;
		tcp->dest = flow->new_destination_port;
		tcp->check = adjusted(tcp->check, flow->transport_delta);
	} else {
		struct udphdr *udp = transport;

		udp->source = flow->new_source_port;
		udp->dest = flow->new_destination_port;
		/* No checksum stays none; a checksum that comes out as zero is sent as all ones. */
		if (udp->check) {
			udp->check = adjusted(udp->check, flow->transport_delta);
			if (!udp->check)
				udp->check = 0xffff;
		}
	}
}

/* Forward a packet. Returns the XDP action, or -1 with the reason why the daemon is to look at it. */
static __always_inline int forward(struct xdp_md *context, struct ethhdr *ethernet, void *end, __u32 *why)
{
	struct iphdr *ip = (void *)(ethernet + 1);
	struct flow_key key = {};
	struct flow_count *counter;
	struct flow *flow;
	void *transport;
	__u32 slot, bytes;
	__u16 *macs;
	int action;

	*why = NOT_IPV4;
	if (ethernet->h_proto != bpf_htons(ETH_P_IP))
		return -1;
	*why = TRUNCATED;
	if ((void *)(ip + 1) > end)
		return -1;
	*why = OPTIONS;
	if (ip->version != 4 || ip->ihl != 5)
		return -1;
	*why = FRAGMENT;
	if (ip->frag_off & bpf_htons(FRAGMENT_BITS))
		return -1;
	bytes = bpf_ntohs(ip->tot_len);
	*why = TRUNCATED;
	if (sizeof(*ethernet) + bytes > bpf_xdp_get_buff_len(context))
		return -1;
	transport = ip + 1;
	if (ip->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = transport;

		if ((void *)(tcp + 1) > end || bytes < sizeof(*ip) + sizeof(*tcp))
			return -1;
		*why = CONNECTION_CONTROL;
		if (tcp->syn || tcp->fin || tcp->rst)
			return -1;
	} else if (ip->protocol == IPPROTO_UDP) {
		struct udphdr *udp = transport;

		if ((void *)(udp + 1) > end || bytes < sizeof(*ip) + sizeof(*udp))
			return -1;
	} else {
		*why = OTHER_PROTOCOL;
		return -1;
	}
	key.ingress = context->ingress_ifindex;
	key.source = ip->saddr;
	key.destination = ip->daddr;
	/* Both protocols begin with the ports. */
	key.source_port = ((__be16 *)transport)[0];
	key.destination_port = ((__be16 *)transport)[1];
	key.protocol = ip->protocol;
	flow = bpf_map_lookup_elem(&flows, &key);
	*why = MISS;
	if (!flow)
		return -1;
	*why = NOT_OUR_MAC;
	macs = (void *)ethernet;
	if (macs[0] != flow->own_mac[0] || macs[1] != flow->own_mac[1] || macs[2] != flow->own_mac[2])
		return -1;
	*why = EXPIRING;
	if (ip->ttl <= 1)
		return -1;
	*why = TOO_LONG;
	if (bytes > flow->max_bytes)
		return -1;
	slot = flow->slot;
	counter = bpf_map_lookup_elem(&flow_counters, &slot);
	if (counter) {
		counter->packets += 1;
		counter->bytes += sizeof(*ethernet) + bytes;
		counter->last_seen_ns = bpf_ktime_get_coarse_ns();
	}
	rewrite(ethernet, ip, end, flow);
	action = bpf_redirect_map(&devices, flow->egress, XDP_DROP);
	count(action == XDP_REDIRECT ? HIT : NO_EGRESS);
	return action;
}

SEC("xdp.frags")
int offload(struct xdp_md *context)
{
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = (void *)(long)context->data;
	__u32 why;
	int action;

	if ((void *)(ethernet + 1) > end) {
		count(TRUNCATED);
		return XDP_PASS;
	}
	action = forward(context, ethernet, end, &why);
	if (action >= 0)
		return action;
	if (is_for_stack(ethernet, end)) {
		count(STACK);
		return XDP_PASS;
	}
	count(why);
	return to_socket(context);
}

char LICENSE[] SEC("license") = "Apache-2.0";
