"""The exception tree: one line each, with the exit code that the documentation promises."""

import pytest

from emulator import errors


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.ScenarioError("is wrong"), 2, "is wrong"),
        (errors.ScenarioError("is wrong", file="a.yaml", line=3, key="x.y"), 2, "a.yaml:3: x.y: is wrong"),
        (errors.ScenarioError("is wrong", line=3), 2, "line 3: is wrong"),
        (errors.ScenarioError("is wrong", file="a.yaml"), 2, "a.yaml: is wrong"),
        (errors.MissingCapability("netem", "use the virtual engine"), 3, "missing netem: use the virtual engine"),
        (errors.CommandError(["ip", "x"], 2, "usage\nbad x\n"), 4, "'ip x' ended with status 2: bad x"),
        (errors.CommandError(["ip"], -9, "", "h0"), 4, "'ip' in h0 ended with status -9"),
        (errors.ControllerError("no"), 5, "no"),
        (errors.GatewayError("no"), 6, "no"),
        (errors.WorkloadError("no"), 7, "no"),
        (errors.ExpectationFailed("no"), 20, "no"),
        (errors.InternalError("no"), 70, "no"),
    ],
)
def test_line_and_exit_code(error: errors.EmulatorError, code: int, line: str) -> None:
    """Each error says one line and carries its documented exit code."""
    assert error.exit_code == code
    assert str(error) == line


def test_every_error_is_in_the_tree() -> None:
    """No error class of the module escapes the tree, so the command line can catch them all."""
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(cls, errors.EmulatorError) for cls in classes)
    assert {cls.exit_code for cls in classes} == {2, 3, 4, 5, 6, 7, 20, 70}
