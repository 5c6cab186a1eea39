"""The whole REST interface as one function from a request to a response, whatever goes wrong inside."""

from __future__ import annotations

import logging

from controller.rest.backend import Backend, NotConnected, Silent
from controller.rest.http import Problem, Response, Router, parse_request, problem_response
from controller.rest.ryu_shapes import RyuShapes
from controller.rest.v1 import V1

LOG = logging.getLogger("controller.rest")


class Api:
    """Answers requests; never raises."""

    def __init__(self, backend: Backend) -> None:
        self._router = Router()
        V1(backend).add_to(self._router)
        RyuShapes(backend).add_to(self._router)

    def answer(self, method: str, target: str) -> Response:
        """Answer a request.

        Args:
            method: HTTP method in capitals.
            target: Path and query as they stand in the request line.
        """
        instance = target.split("?", 1)[0][:200]
        try:
            return self._router.dispatch(parse_request(method, target))
        except Problem as problem:
            return problem_response(problem, instance)
        except NotConnected as error:
            return problem_response(Problem(503, str(error)), instance)
        except Silent as error:
            return problem_response(Problem(504, str(error)), instance)
        except Exception as error:
            LOG.error("%s %s failed: %s: %s", method, instance, type(error).__name__, error)
            LOG.debug("the error above", exc_info=True)
            return problem_response(Problem(500, "an internal error, see the controller's log"), instance)
