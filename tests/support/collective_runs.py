"""A scenario of collectives on a small torus, for the test that runs it."""

TORUS = """
scenario: collectives
question: Are results right, and times those of the model?
topology: {kind: torus3d, x: 3, y: 2, z: 2}
limits: {wall: 600 s}
workloads:
  - {name: ring, kind: collective, algorithm: ring, begin: 48 B, end: 1 MiB, factor: 128, iterations: 2}
  - {name: auto, kind: collective, begin: 1 KiB, end: 4 MiB, factor: 64, iterations: 3, reduce_rate: 0 bit/s}
  - {name: gather, kind: collective, collective: all_gather, begin: 96 KiB, iterations: 2, datatype: int8}
  - {name: exchange, kind: collective, collective: alltoall, algorithm: shift, begin: 96 KiB, iterations: 2}
  - {name: few, kind: collective, ranks: [c2_0_1, c0_0_0, c1_1_0], begin: 64 KiB, datatype: half, operation: max,
     congestion: dctcp, message: 1 us, iterations: 1}
"""

JOBS = """
scenario: jobs
question: Do jobs go on?
topology: {kind: torus3d, x: 2, y: 2, z: 4, twist: 2}
limits: {wall: 600 s}
workloads:
  - {name: faults, kind: collective_job, size: 256 KiB, rounds: 24, detect: 100 us, react: 50 us}
  - {name: members, kind: collective_job, algorithm: torus-buckets, size: 64 KiB, rounds: 12,
     changes: [{after: 4, leave: [c0_0_3]}, {after: 8, join: [c1_1_3], leave: [c0_0_0, c0_0_1]}]}
faults:
  - {at: 40 us, cut: c0_0_0-c1_0_0, during: faults}
  - {at: 400 us, stop: c1_0_2, during: faults}
"""

APART = """
scenario: apart
question: Do jobs go on where fabrics lose a plane, or fall apart, and who joins is dead?
topology: {kind: dual_plane, nodes: 3, rails: 2}
matrix:
  fabric:
    planes:
      topology: {kind: dual_plane, nodes: 3, rails: 2}
    tree:
      topology: {kind: tree, fanouts: 2x3}
      workloads.job.changes: []
      faults:
        - {at: 40 us, stop: t}
limits: {wall: 600 s}
workloads:
  - {name: job, kind: collective_job, size: 256 KiB, rounds: 24, detect: 100 us, react: 50 us,
     changes: [{after: 20, join: [c2_1]}]}
faults:
  - {at: 60 us, cut: c0_0-l0_0}
  - {at: 400 us, stop: l0_1}
  - {at: 420 us, stop: c2_1}
"""

SILENT = """
scenario: silent
question: Do jobs go on where links go silent, which nobody notices who does not look closely?
topology: {kind: torus3d, x: 3, y: 3, z: 1}
limits: {wall: 600 s}
workloads:
  - {name: job, kind: collective_job, size: 256 KiB, rounds: 40, detect: 100 us, react: 50 us}
  - {name: after, kind: probe, all_to_all: [gpu], interval: 72 us, duration: 1 ms}
faults:
  - {at: 60 us, cut: c0_0_0-c0_1_0, during: job}
  - {at: 400 us, silence: c0_0_0-c1_0_0, during: job}
  - {at: 400 us, silence: c1_1_0-c1_2_0, during: job}
"""
