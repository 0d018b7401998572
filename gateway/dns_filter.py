"""Script inside the agent's resolver: the second judge of a name, before anything is forwarded.

Unbound loads it with its Python module and calls the functions by name; the names that it uses
without importing them come from there. The response policy zone answers what is denied, without
Python; what gets here would be forwarded, so it is judged once more by the name table, and a table
that can't be read allows nothing.
"""

# mypy: ignore-errors
# ruff: noqa: F821, ANN001, ANN201, ANN202, D103, ARG001, PTH116, PTH123

import os

from abox.name_table import NameTable

TABLE_FILE = "/var/lib/abox/policy/names.json"

HIDDEN_TYPES = (64, 65)
"""SVCB and HTTPS: their hints are addresses, and agents don't need them to reach a proxy."""

_state = {"stamp": None, "table": NameTable()}


def _table():
    """The table that is in force; read again when the file was replaced."""
    try:
        found = os.stat(TABLE_FILE)
        stamp = (found.st_ino, found.st_mtime_ns)
        if stamp != _state["stamp"]:
            with open(TABLE_FILE, encoding="ascii") as file:
                _state.update(stamp=stamp, table=NameTable.from_json(file.read()))
    except (OSError, ValueError, KeyError, TypeError):
        _state.update(stamp=None, table=NameTable())
    return _state["table"]


def _allowed(labels):
    """Whether a name, as raw labels without the root, may be forwarded."""
    if any(b"." in label for label in labels):
        return False
    try:
        name = b".".join(labels).decode("ascii").lower()
    except UnicodeDecodeError:
        return False
    return _table().allows(name)


def _labels(wire):
    labels, at = [], 0
    while wire[at]:
        labels.append(wire[at + 1 : at + 1 + wire[at]])
        at += 1 + wire[at]
    return labels


def init_standard(module_id, env):
    return True


def deinit(module_id):
    return True


def inform_super(module_id, qstate, superqstate, qdata):
    return True


def _answer(qstate, module_id, rcode):
    """End the query here; no records."""
    message = DNSMessage(
        qstate.qinfo.qname_str, qstate.qinfo.qtype, qstate.qinfo.qclass, PKT_QR | PKT_RA
    )
    if not message.set_return_msg(qstate):
        qstate.ext_state[module_id] = MODULE_ERROR
        return
    qstate.return_rcode = rcode
    qstate.no_cache_store = 1
    qstate.return_msg.rep.flags = (qstate.return_msg.rep.flags & 0xFFF0) | rcode
    qstate.ext_state[module_id] = MODULE_FINISHED


def operate(module_id, event, qstate, qdata):
    if event not in (MODULE_EVENT_NEW, MODULE_EVENT_PASS):
        qstate.ext_state[module_id] = MODULE_FINISHED
    elif not _allowed(_labels(qstate.qinfo.qname)):
        _answer(qstate, module_id, RCODE_NXDOMAIN)
    elif qstate.qinfo.qtype in HIDDEN_TYPES:
        _answer(qstate, module_id, RCODE_NOERROR)
    else:
        qstate.ext_state[module_id] = MODULE_WAIT_MODULE
    return True
