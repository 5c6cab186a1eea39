// SPDX-License-Identifier: Apache-2.0
/* Makes packets for a benchmark and counts those that arrive.
 *
 * `generate` is run by BPF_PROG_TEST_RUN on live frames, which leave by the interface `settings.egress`. The frames are
 * used again and again, also after others have rewritten them, so all headers are written each time.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define HEADER_BYTES (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr))
#define MOST_SPINS 100000
#define FORGIVEN_PS 20000000ULL /* who is later than 20 us does not make up for it with a burst */

const volatile struct {
	__u32 egress; /* interface index */
	__u32 flows; /* source ports, from the one in the header upwards; a power of two */
	__u16 port; /* destination port of what is counted, network byte order */
	__u16 header[HEADER_BYTES / 2]; /* with the checksum of its own source port */
} settings = {};

struct pace {
	__u64 interval_ps; /* between two packets; 0: as fast as can be */
	__u64 next_ps;
	__u64 sent;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pace);
} paces SEC(".maps");

struct arrived {
	__u64 packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arrived);
} arrivals SEC(".maps");

static long wait(__u32 index, void *until_ps)
{
	(void)index;
	return bpf_ktime_get_ns() * 1000 >= *(__u64 *)until_ps;
}

static __always_inline void keep_pace(struct pace *pace)
{
	__u64 now_ps = bpf_ktime_get_ns() * 1000, due_ps = pace->next_ps;

	if (due_ps + FORGIVEN_PS < now_ps)
		due_ps = now_ps;
	bpf_loop(MOST_SPINS, wait, &due_ps, 0);
	pace->next_ps = due_ps + pace->interval_ps;
}

SEC("xdp")
int generate(struct xdp_md *context)
{
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = (void *)(long)context->data;
	struct udphdr *udp = (void *)ethernet + ETH_HLEN + sizeof(struct iphdr);
	__u32 zero = 0, step, sum;
	struct pace *pace = bpf_map_lookup_elem(&paces, &zero);

	if ((void *)ethernet + HEADER_BYTES > end || !pace || !settings.flows)
		return XDP_ABORTED;
	if (pace->interval_ps)
		keep_pace(pace);
	for (__u32 i = 0; i < HEADER_BYTES / 2; i++)
		((__u16 *)ethernet)[i] = settings.header[i];
	step = pace->sent & (settings.flows - 1);
	pace->sent += 1;
	udp->source = bpf_htons(bpf_ntohs(udp->source) + step);
	sum = (__u16)~bpf_ntohs(udp->check) + step;
	sum = (sum & 0xffff) + (sum >> 16);
	udp->check = bpf_htons((__u16)~sum);
	return bpf_redirect(settings.egress, 0);
}

SEC("xdp.frags")
int redirect(struct xdp_md *context)
{
	(void)context;
	return bpf_redirect(settings.egress, 0);
}

SEC("xdp.frags")
int sink(struct xdp_md *context)
{
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = (void *)(long)context->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct arrived *count;
	__u32 zero = 0;

	if ((void *)(udp + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP ||
	    udp->dest != settings.port)
		return XDP_PASS;
	count = bpf_map_lookup_elem(&arrivals, &zero);
	if (count)
		count->packets += 1;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Apache-2.0";
