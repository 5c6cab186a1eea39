"""What a manifest says of the kernel."""

from pathlib import Path

from emulator.engine.kernelimage import describe_kernel


def test_kernels_are_told_apart_by_build_and_content(tmp_path: Path) -> None:
    """The folder carries source version and key; the digest is of the very file."""
    kernel = tmp_path / "7.2.13-1-abc" / "linux"
    kernel.parent.mkdir()
    kernel.write_bytes(b"abc")
    assert describe_kernel(kernel) == {
        "build": "7.2.13-1-abc",
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
