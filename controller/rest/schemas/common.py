"""What several answers share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
PortNumber = Annotated[int, Field(ge=0, lt=1 << 32)]
DatapathId = Annotated[int, Field(ge=0, lt=1 << 64)]


class Answer(BaseModel):
    """A body, or a part of one. Members that are not set are left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FieldError(Answer):
    """One thing that is wrong with a body."""

    pointer: Annotated[str, Field(description="JSON pointer as a URI fragment (RFC 6901), like `#/cidrs/0`.")]
    detail: str


class ProblemBody(Answer):
    """What went wrong (RFC 9457)."""

    type: Annotated[str, Field(description="Always `about:blank`: the status says it all.")]
    title: Annotated[str, Field(description="Name of the status.")]
    status: Annotated[int, Field(ge=400, le=599)]
    detail: Annotated[str, Field(description="One sentence for this occurrence.")]
    instance: Annotated[str, Field(description="The request's path.")]
    parameter: Annotated[str, Field(description="The parameter at fault.")] = ""
    errors: Annotated[tuple[FieldError, ...], Field(description="All that is wrong with the body.")] = ()
    active: Annotated[str, Field(description="Name of the controller that takes changes.")] = ""
