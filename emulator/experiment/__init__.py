"""Joins everything: the host side runs cells on an engine, the side inside builds the network and drives the workloads."""
