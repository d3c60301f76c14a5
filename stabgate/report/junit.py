"""A run of gates as a JUnit file, for runs without pytest: a case for each gate, its numbers as properties."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from stabgate.report.bounded import bounded
from stabgate.report.plain import plain
from stabgate.report.properties import properties
from stabgate.report.session import GateReport, SessionReport
from stabgate.report.tables import standing
from stabgate.report.terminal import reason
from stabgate.verdict.verdicts import Outcome

SUITE = "stabgate"


def junit(report: SessionReport) -> str:
    """The text of the file. FAIL is a failure; what was not measured, or is inconclusive and fails, is an error."""
    blocking = [gate for gate in report.gates if gate.blocks]
    failures = sum(gate.outcome is Outcome.FAIL for gate in blocking)
    seconds = sum(gate.verdict.cost.seconds for gate in report.gates if gate.verdict is not None)
    counts = {
        "name": SUITE,
        "tests": str(len(report.gates) + bool(report.unfinished)),
        "failures": str(failures),
        "errors": str(len(blocking) - failures + bool(report.unfinished)),
        "skipped": "0",
        "time": f"{seconds:.3f}",
        "timestamp": report.created,
    }
    suites = ET.Element("testsuites", name=SUITE)
    suite = ET.SubElement(suites, "testsuite", counts)
    for gate in sorted(report.gates, key=lambda gate: (gate.name, gate.kind)):
        suite.append(_case(gate))
    if report.unfinished:
        case = ET.SubElement(suite, "testcase", classname=SUITE, name="the run finished", time="0.000")
        said = plain(report.unfinished)
        ET.SubElement(case, "error", message=f"the run did not finish: {said}", type="NOT MEASURED").text = said
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(gate: GateReport) -> ET.Element:
    seconds = 0.0 if gate.verdict is None else gate.verdict.cost.seconds
    case = ET.Element("testcase", classname=f"{SUITE}.{gate.kind}", name=plain(gate.name), time=f"{seconds:.3f}")
    if gate.verdict is not None:
        found = ET.SubElement(case, "properties")
        for name, value in properties(gate.name, gate.verdict):
            ET.SubElement(found, "property", name=name, value=str(value))
    if gate.outcome is not Outcome.PASS:
        said = "\n".join(plain(line) for line in bounded(gate.message).splitlines())
        if gate.blocks:
            kind = "failure" if gate.outcome is Outcome.FAIL else "error"
            ET.SubElement(case, kind, type=str(gate.outcome), message=reason(gate)).text = said
        else:
            ET.SubElement(case, "system-out").text = f"{gate.outcome}{standing(gate)}\n{said}"
    return case
