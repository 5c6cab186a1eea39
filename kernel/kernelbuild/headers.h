/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What most files of the kernel include, to be compiled once beforehand: reading headers is four fifths of the work.
 * The names below differ for each file; cc.sh sets them again after this header.
 */
#define KBUILD_MODFILE "kernel"
#define KBUILD_BASENAME "kernel"
#define KBUILD_MODNAME "kernel"
#define __KBUILD_MODNAME kernel
#include <linux/compiler-version.h>
#include <linux/kconfig.h>
#include <linux/compiler_types.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/workqueue.h>
#include <linux/seq_file.h>
#include <linux/proc_fs.h>
#include <linux/skbuff.h>
#include <linux/netdevice.h>
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/netlink.h>
#include <net/genetlink.h>
#include <linux/bpf.h>
#include <linux/filter.h>
