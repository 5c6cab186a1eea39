"""Claims and their verdicts: the judgements of `emulator.report.criteria` under all profiles of a run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from emulator.report.collective_criteria import COLLECTIVE_CRITERIA
from emulator.report.criteria import CRITERIA
from emulator.report.evidence import Evidence, evidence_of
from emulator.report.judgement import Criterion, Finding
from emulator.report.supernode_criteria import SUPERNODE_CRITERIA
from emulator.results.reader import Results

ALL_CRITERIA = (*CRITERIA, *SUPERNODE_CRITERIA, *COLLECTIVE_CRITERIA)
HOLDS, FAILS, NO_FIGURE = "holds", "does not hold", "no figure"


@dataclass(frozen=True)
class Claim:
    """A claim of the documents.

    Attributes:
        id: Its number.
        what: What it is about.
        before, after: The figures stated for the conventional and the new design; empty: not stated.
        gain: The stated improvement.
        given: Whether it is a stated parameter, and so an input of a cost model.
        kind: ``network``, ``derived``, ``economic`` or ``external``.
    """

    id: str
    what: str
    before: str = ""
    after: str = ""
    gain: str = ""
    given: bool = False
    kind: str = "network"


@dataclass(frozen=True)
class Verdict:
    """What became of one criterion.

    Attributes:
        claim: The claim that it belongs to.
        statement: What the claim says.
        how: How it was judged.
        findings: By profile.
        verdict: ``holds``, ``does not hold``, ``holds under profile X`` or ``no figure``.
    """

    claim: Claim
    statement: str
    how: str
    findings: dict[str, Finding]
    verdict: str

    @property
    def tone(self) -> str:
        """How to colour it: ``good``, ``bad``, ``mixed`` or ``none``."""
        tones = {HOLDS: "good", FAILS: "bad", NO_FIGURE: "none"}
        return tones.get(self.verdict, "mixed")

    def as_json(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return {
            "claim": self.claim.id,
            "statement": self.statement,
            "how": self.how,
            "verdict": self.verdict,
            "findings": {profile: _finding_json(finding) for profile, finding in self.findings.items()},
        }


def _finding_json(finding: Finding) -> dict[str, Any]:
    data = asdict(finding)
    for key in ("conventional", "gateway"):
        if data[key]:
            data[key]["kind"] = data[key]["kind"].value
    return data


@lru_cache(maxsize=1)
def all_claims() -> tuple[Claim, ...]:
    """All claims of the documents, in their order."""
    text = resources.files("emulator.report").joinpath("claims.yaml").read_text(encoding="utf-8")
    return tuple(_claim(entry) for entry in yaml.safe_load(text)["claims"])


def _claim(entry: dict[str, Any]) -> Claim:
    texts = {key: str(value) for key, value in entry.items() if key != "given"}
    return Claim(given=bool(entry.get("given", False)), **texts)


def judge(results: Results) -> list[Verdict]:
    """Judge all claims that this version can judge; without figures the verdict is ``no figure``."""
    return judge_evidence(evidence_of(results))


def judge_evidence(evidence: Sequence[Evidence], criteria: Sequence[Criterion] = ALL_CRITERIA) -> list[Verdict]:
    """Judge criteria under each profile and draw the verdicts together."""
    claims = {claim.id: claim for claim in all_claims()}
    verdicts = []
    for criterion in criteria:
        findings = {one.profile: criterion.judge(one) for one in evidence}
        verdicts.append(
            Verdict(claims[criterion.claim], criterion.statement, criterion.how, findings, overall(findings))
        )
    return verdicts


def overall(findings: dict[str, Finding]) -> str:
    """One verdict from those under each profile. Only what holds under at least two profiles holds as such."""
    judged = {profile: finding.met for profile, finding in findings.items() if finding.met is not None}
    good = [profile for profile, met in judged.items() if met]
    if not judged:
        return NO_FIGURE
    if not good:
        return FAILS
    if len(good) == len(judged) and len(judged) > 1:
        return HOLDS
    return f"holds under profile {' and '.join(good)}"


def not_examined(verdicts: Sequence[Verdict]) -> list[Claim]:
    """Claims on which a run has no figure at all."""
    seen = {verdict.claim.id for verdict in verdicts if verdict.verdict != NO_FIGURE}
    return [claim for claim in all_claims() if claim.id not in seen]


def examined(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts on claims of which a run has at least one figure."""
    seen = {verdict.claim.id for verdict in verdicts if verdict.verdict != NO_FIGURE}
    return [verdict for verdict in verdicts if verdict.claim.id in seen]


def as_ranges(claims: Sequence[Claim]) -> str:
    """Numbers of claims with runs of them joined: ``G06 to G08, G11``."""
    numbers = [claim.id for claim in claims]
    known = [claim.id for claim in all_claims()]
    runs: list[list[str]] = []
    for number in numbers:
        follows = runs and known.index(number) == known.index(runs[-1][-1]) + 1 and number[0] == runs[-1][-1][0]
        if follows:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
