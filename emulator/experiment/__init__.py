"""Joins everything: the host side runs cells on an engine, the inner side builds the network and drives workloads."""
