"""Ryu's ``simple_switch_13``, which also adds entries by its own `add_flow` once a switch is there, and a barrier.

When the barrier is answered, the seconds since the first of them go into the file that ``ICGW_BENCH_FILE`` names;
``ICGW_BENCH_FLOWS`` says how many entries.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ryu.app import simple_switch_13
from ryu.controller import ofp_event
from ryu.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls


class Pusher(simple_switch_13.SimpleSwitch13):  # type: ignore[misc]  # Ryu has no types
    """The same application, and more."""

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
    def switch_features_handler(self, ev: Any) -> None:
        """Add the entries, each for other hosts."""
        super().switch_features_handler(ev)
        datapath = ev.msg.datapath
        parser = datapath.ofproto_parser
        self.began_s = time.perf_counter()
        for number in range(int(os.environ["ICGW_BENCH_FLOWS"])):
            mac = f"02:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
            match = parser.OFPMatch(in_port=1, eth_dst=mac, eth_src="02:00:00:ff:ff:ff")
            self.add_flow(datapath, 1, match, [parser.OFPActionOutput(2)])
        datapath.send_barrier()

    @set_ev_cls(ofp_event.EventOFPBarrierReply, [CONFIG_DISPATCHER, MAIN_DISPATCHER])  # type: ignore[untyped-decorator]
    def done(self, _: Any) -> None:
        """All entries are in the switch."""
        file = Path(os.environ["ICGW_BENCH_FILE"])
        file.with_suffix(".part").write_text(str(time.perf_counter() - self.began_s))
        file.with_suffix(".part").rename(file)
