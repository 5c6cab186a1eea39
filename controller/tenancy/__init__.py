"""Tenants with their VPCs, nodes, storage endpoints and policies: what is wanted, kept, checked and turned into rules."""
