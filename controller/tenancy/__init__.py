"""Tenants, their VPCs, nodes, endpoints and policies: what is wanted, kept, checked and turned into rules."""
