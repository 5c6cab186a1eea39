from contextlib import nullcontext


def observing(cell, fabric, network, folder):
    return nullcontext()
