"""The machine that runs scenarios: model, scenarios, engines, network, workloads, measurement, results and report.

Nothing is imported here: each package is imported by the layer above it (see ``ARCHITECTURE.md``), and a cheap
``import emulator`` keeps start-up fast inside the virtual kernel.
"""

__version__ = "0.1.0"
