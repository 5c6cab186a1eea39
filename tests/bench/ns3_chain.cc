// The benchmark's comparison: bulk TCP over a chain of store-and-forward links in ns-3.
//
// Same rate, delay, hops, MTU and payload as the emulated chain, checksums off and no queueing discipline above the
// device queue, so that ns-3 does no work that the comparison does not need. Prints received bytes and emulated time.
#include <cstdint>
#include <iostream>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

int main(int argc, char** argv) {
    uint64_t bytes = 1'000'000'000;
    uint32_t hops = 3;
    uint32_t mtu = 9000;
    std::string rate = "100Gbps";
    std::string delay = "5us";
    CommandLine command;
    command.AddValue("bytes", "payload to transfer", bytes);
    command.AddValue("hops", "links between sender and receiver", hops);
    command.AddValue("mtu", "bytes of an IP packet", mtu);
    command.AddValue("rate", "line rate", rate);
    command.AddValue("delay", "propagation delay of a link", delay);
    command.Parse(argc, argv);

    const uint32_t headers = 20 + 20 + 12;  // IPv4, TCP, timestamps option
    const uint16_t port = 5001;
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mtu - headers));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(64u << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(64u << 20));

    NodeContainer nodes;
    nodes.Create(hops + 1);
    InternetStackHelper().Install(nodes);

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetDeviceAttribute("Mtu", UintegerValue(mtu));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("10000p"));

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer last;
    for (uint32_t hop = 0; hop < hops; ++hop) {
        NetDeviceContainer devices = link.Install(nodes.Get(hop), nodes.Get(hop + 1));
        last = addresses.Assign(devices);
        TrafficControlHelper().Uninstall(devices);
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(last.GetAddress(1), port));
    sender.SetAttribute("MaxBytes", UintegerValue(bytes));
    sender.SetAttribute("SendSize", UintegerValue(65536));
    const Time start = MilliSeconds(1);
    sender.Install(nodes.Get(0)).Start(start);

    PacketSinkHelper receiver("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    Ptr<PacketSink> sink = DynamicCast<PacketSink>(receiver.Install(nodes.Get(hops)).Get(0));
    Time done;
    sink->TraceConnectWithoutContext("Rx", Callback<void, Ptr<const Packet>, const Address&>(
        [&](Ptr<const Packet>, const Address&) {
            if (sink->GetTotalRx() >= bytes) {
                done = Simulator::Now();
                Simulator::Stop();
            }
        }));

    Simulator::Stop(Seconds(60));
    Simulator::Run();
    std::cout << "received_bytes=" << sink->GetTotalRx() << " emulated_ns=" << (done - start).GetNanoSeconds() << "\n";
    Simulator::Destroy();
    return sink->GetTotalRx() >= bytes ? 0 : 1;
}
