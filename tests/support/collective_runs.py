"""A scenario of collectives on a small torus, for the test that runs it."""

TORUS = """
scenario: collectives
question: Are results right, and times those of the model?
topology: {kind: torus3d, x: 3, y: 2, z: 2}
workloads:
  - {name: ring, kind: collective, algorithm: ring, begin: 48 B, end: 1 MiB, factor: 128, iterations: 2}
  - {name: auto, kind: collective, begin: 1 KiB, end: 4 MiB, factor: 64, iterations: 3, reduce_rate: 0 bit/s}
  - {name: gather, kind: collective, collective: all_gather, begin: 96 KiB, iterations: 2, datatype: int8}
  - {name: exchange, kind: collective, collective: alltoall, algorithm: shift, begin: 96 KiB, iterations: 2}
  - {name: few, kind: collective, ranks: [c2_0_1, c0_0_0, c1_1_0], begin: 64 KiB, datatype: half, operation: max,
     congestion: dctcp, message: 1 us, iterations: 1}
"""
