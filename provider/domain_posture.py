"""A live VM beside the hardened domain: read, compared, repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar
from xml.etree import ElementTree

from abox.errors import HostError
from abox.render.domain import DomainSpec, HardenedDomain, normal_form, sandbox_of
from provider.firewall_table import differences
from provider.nwfilter import NwFilter
from provider.records import Record, Records
from provider.resource import UNKNOWN, Data, Failure, Field, Resource, is_unknown
from provider.tap_rules import faults, rules_of

RUNNING, PAUSED = "running", "paused"
ROLE = "vm"
"""Under which a sandbox's VM is recorded."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the host says about a domain."""

    state: str
    """libvirt's word: running, paused, shut off, …"""
    stored: str
    """XML of its definition."""
    live: str
    """XML of the running machine; the definition where it doesn't run."""
    tap: list[str]
    """The kernel's rules on its tap."""
    confined: bool
    """Whether the process of the running machine has its system call filter."""
    bridge: str
    """The bridge that the tap is a port of; empty if it is none, or there is no tap."""

    @property
    def active(self) -> bool:
        """Whether there is a machine, running or not."""
        return self.state in (RUNNING, PAUSED)


@dataclass(frozen=True)
class Tools:
    """The doors to the host that a domain's posture needs."""

    virsh: Callable[..., str]
    """Runs the tool and raises HostError with its stderr."""
    packet_rules: Callable[[], str]
    """What `iptables-save` and `ebtables-save` print."""
    is_confined: Callable[[str], bool]
    """Whether the process of the machine with this name has a system call filter."""
    bridge_of_port: Callable[[str], str]
    """Name of the bridge that an interface is a port of, empty if it is none."""
    set_bridge: Callable[[str, str], None]
    """Makes an interface a port of a bridge."""


@dataclass(frozen=True)
class Domain:
    """One domain, by its uuid."""

    uuid: str
    tools: Tools

    def read(self) -> Facts | None:
        """What the host says; None only if a successful listing lacks the domain."""
        if self.uuid not in self._virsh("list", "--all", "--uuid").split():
            return None
        state = self._virsh("domstate", self.uuid).strip()
        stored = self._virsh("dumpxml", self.uuid, "--inactive")
        if state not in (RUNNING, PAUSED):
            return Facts(state=state, stored=stored, live=stored, tap=[], confined=True, bridge="")
        live = self._virsh("dumpxml", self.uuid)
        return Facts(
            state=state,
            stored=stored,
            live=live,
            tap=rules_of(self.tools.packet_rules(), _tap(live)),
            confined=self.tools.is_confined(_name(live)),
            bridge=self.tools.bridge_of_port(_tap(live)),
        )

    def define(self, xml: str) -> None:
        """Store a definition; a running machine keeps its own."""
        self._virsh("define", "/dev/stdin", stdin=xml)

    def change_interface(self, xml: str) -> None:
        """Put another interface of the same hardware address in place, live."""
        self._virsh("update-device", self.uuid, "/dev/stdin", "--live", stdin=xml)

    @property
    def sandbox(self) -> str:
        """The sandbox whose name the domain bears, empty if it bears none."""
        return sandbox_of(self._virsh("dumpxml", self.uuid, "--inactive"))

    def silence(self) -> None:
        """Switch the machine off; one that is off stays so."""
        if self._virsh("domstate", self.uuid).strip() in (RUNNING, PAUSED):
            self._virsh("destroy", self.uuid)

    def remove(self) -> None:
        """Switch the machine off and forget it; its disks stay."""
        self.silence()
        forget = ("--managed-save", "--snapshots-metadata", "--checkpoints-metadata", "--nvram")
        self._virsh("undefine", self.uuid, *forget)

    def restart(self) -> None:
        """Switch the machine off and on, so that it is as its definition says."""
        self._virsh("destroy", self.uuid)
        self.start()

    def start(self) -> None:
        """Switch the machine on."""
        self._virsh("start", self.uuid)

    def resume(self) -> None:
        """Let a paused machine go on."""
        self._virsh("resume", self.uuid)

    def _virsh(self, *arguments: str, stdin: str = "") -> str:
        return self.tools.virsh(*arguments, stdin=stdin)


def _parts(xml: str) -> ElementTree.Element:
    # libvirt's own dump: the parser meets no hostile document.
    return ElementTree.fromstring(xml)  # noqa: S314


def _name(xml: str) -> str:
    return _parts(xml).findtext("name", "")


def _tap(xml: str) -> str:
    """Name of the only interface's tap."""
    target = _parts(xml).find("devices/interface/target")
    return "" if target is None else target.get("dev", "")


def _bridge(xml: str) -> str:
    """The bridge that the only interface belongs on."""
    source = _parts(xml).find("devices/interface/source")
    return "" if source is None else source.get("bridge", "")


def _interfaces(xml: str) -> list[ElementTree.Element]:
    return _parts(xml).findall("devices/interface")


def findings(facts: Facts, applied: str, tap: list[str]) -> list[str]:
    """All differences, in a fixed order; empty when the domain is as it was applied.

    Args:
        facts: what the host says.
        applied: the domain's normal form right after it was made, one line a part.
        tap: the kernel's rules on the tap as they were then.
    """
    found = [f"definition: {each}" for each in differences(applied, _form(facts.stored))]
    if facts.state != RUNNING:
        found.append(f"the VM is {facts.state}")
    if facts.active:
        found += [f"running: {each}" for each in differences(applied, _form(facts.live))]
        found += [f"tap: {each}" for each in differences("\n".join(tap), "\n".join(facts.tap))]
    if facts.active and facts.bridge != _bridge(facts.live):
        found.append(f"tap: it is on {facts.bridge or 'no bridge'}, not on {_bridge(facts.live)}")
    if not facts.confined:
        found.append("QEMU runs without its system call filter")
    return found


def _form(xml: str) -> str:
    return "\n".join(normal_form(xml))


class DomainPostureResource(Resource):
    """Adapter: compares the domain with the hardened shape once, then with what it was."""

    type_name = "DomainPosture"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="domain", kind=str),
        Field(name="filter", kind=str),
        Field(name="hardened", kind=dict),
    )
    drift_fields: ClassVar = ("findings",)

    def __init__(self, tools: Tools, records: Callable[[], Records]) -> None:
        self._tools = tools
        self._records = records

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """An expectation that can't be read."""
        try:
            _hardened(inputs["hardened"])
        except (TypeError, ValueError) as error:
            if not is_unknown(inputs["hardened"]):
                yield Failure("hardened", f"hardened: {error}")

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Any difference."""
        return {"findings": False} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """If only drift is repaired, the domain will be as it was."""
        if old is None or any(old.get(name) != inputs[name] for name in ("domain", "hardened")):
            return {**dict.fromkeys(("applied", "definition", "tap"), UNKNOWN), "findings": []}
        return {name: old[name] for name in ("applied", "definition", "tap")} | {"findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Look at the new domain, refuse one that isn't hardened, remember what it is."""
        return inputs["sandbox"], self._look(inputs)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """The domain beside what it was."""
        kept = {name: state[name] for name in ("applied", "definition", "tap")}
        facts = Domain(state["domain"], self._tools).read()
        if facts is None:
            return {**kept, "findings": ["the domain is gone"]}
        found = findings(facts, state["applied"], state["tap"])
        record = self._records().find(state["sandbox"], ROLE)
        if record is None or record.container != state["domain"]:
            found.append("it isn't the recorded domain")
        return {**kept, "findings": found}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Look at a new domain, or repair the one that was there."""
        changed = any(old.get(name) != new[name] for name in ("domain", "hardened", "filter"))
        return self._look(new) if changed else self._repair(new, old)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Forget the record; the domain belongs to pulumi-libvirt."""
        self._records().forget(state["sandbox"], ROLE)

    def _look(self, inputs: Data) -> Data:
        self._keep_record(inputs)
        domain = Domain(inputs["domain"], self._tools)
        facts = _present(domain)
        hardened = _hardened(inputs["hardened"])
        form = normal_form(facts.stored)
        wrong = list(hardened.departures(form)) if hardened else []
        if facts.active:
            wrong += faults(facts.tap)
        wrong += findings(facts, "\n".join(form), facts.tap)
        if wrong:
            raise HostError(
                what=f"domain {inputs['domain']} isn't what was asked",
                why="; ".join(wrong),
                remedy="run `pulumi up` once more; if it comes back, `virsh dumpxml` shows what "
                "this version of libvirt adds",
            )
        # The stack holds this domain. So what else bears the sandbox's name is what a run that was
        # killed made and couldn't record.
        for uuid in strays(self._tools, inputs["sandbox"], inputs["domain"]):
            Domain(uuid, self._tools).remove()
        return {
            "applied": "\n".join(form),
            "definition": facts.stored,
            "tap": facts.tap,
            "findings": [],
        }

    def _repair(self, inputs: Data, old: Data) -> Data:
        self._keep_record(inputs)
        domain = Domain(inputs["domain"], self._tools)
        for repair in (_repair_definition, _repair_live, self._repair_tap):
            repair(domain, _present(domain), old)
        if left := findings(_present(domain), old["applied"], old["tap"]):
            raise HostError(
                what=f"domain {inputs['domain']} isn't what was asked",
                why="; ".join(left),
                remedy="run `pulumi up` once more; if it comes back, something else changes it: "
                "look at `virsh event --all`",
            )
        return {name: old[name] for name in ("applied", "definition", "tap")} | {"findings": []}

    def _repair_tap(self, domain: Domain, facts: Facts, old: Data) -> None:  # noqa: ARG002
        """Let libvirt make its rules again; the filter itself is what was asked by now."""
        if facts.active and facts.bridge != _bridge(facts.live):
            # Its bridge was made anew, and left its ports behind.
            self._tools.set_bridge(_tap(facts.live), _bridge(facts.live))
        if facts.active and facts.tap != old["tap"]:
            filtering = NwFilter(old["filter"], self._tools.virsh)
            live = filtering.read()
            if live is not None:
                filtering.apply(live)

    def _keep_record(self, inputs: Data) -> None:
        self._records().keep(inputs["sandbox"], ROLE, Record(inputs["domain"], {}))


def strays(tools: Tools, sandbox: str, held: str) -> list[str]:
    """Ids of domains that bear a sandbox's name, other than ``held``."""
    listed = tools.virsh("list", "--all", "--uuid").split()
    return sorted(u for u in listed if u != held and Domain(u, tools).sandbox == sandbox)


def _present(domain: Domain) -> Facts:
    facts = domain.read()
    if facts is None:
        raise HostError(
            what=f"domain {domain.uuid} is gone",
            why="something removed it while `pulumi up` was running",
            remedy="run `pulumi up` once more, which makes it again",
        )
    return facts


def _repair_definition(domain: Domain, facts: Facts, old: Data) -> None:
    if _form(facts.stored) != old["applied"]:
        domain.define(old["definition"])


def _repair_live(domain: Domain, facts: Facts, old: Data) -> None:
    if not facts.active:
        domain.start()
        return
    if facts.confined and _same_but_for_interface(facts.live, old["applied"]):
        _repair_interface(domain, facts, old)
    if _form(_present(domain).live) != old["applied"] or not facts.confined:
        # A guest decides itself whether it lets go of a device. Power it doesn't decide on.
        domain.restart()
    elif facts.state == PAUSED:
        domain.resume()


def _same_but_for_interface(live: str, applied: str) -> bool:
    """Whether one interface of the same hardware address is all that may differ."""
    prefix = "device interface "
    kept = [line for line in _form(live).splitlines() if not line.startswith(prefix)]
    asked = [line for line in applied.splitlines() if not line.startswith(prefix)]
    return kept == asked and len(_interfaces(live)) == 1


def _repair_interface(domain: Domain, facts: Facts, old: Data) -> None:
    (wanted,), (live,) = _interfaces(old["definition"]), _interfaces(facts.live)
    macs = [each.find("mac") for each in (wanted, live)]
    if len({None if mac is None else mac.get("address") for mac in macs}) == 1:
        domain.change_interface(ElementTree.tostring(wanted, encoding="unicode"))


def _hardened(document: dict[str, Any]) -> HardenedDomain | None:
    """The shape that the domain must have; None if it follows a template of the user's own."""
    if not document:
        return None
    values = dict(document)
    names = [each.name for each in fields(DomainSpec) if each.name in values]
    spec = DomainSpec(**{name: values.pop(name) for name in names})
    return HardenedDomain(spec=spec, **values)
