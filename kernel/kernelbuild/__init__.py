"""Builds the virtual-time kernel; standard library only, see ../build.py."""
