"""Script inside both resolvers: the second judge of a name, before anything is forwarded.

Unbound loads it with its Python module and calls the functions by name; the names that it uses
without importing them come from there. The response policy zone answers what is denied, without
Python; what gets here would be forwarded, so it is judged once more by the name table, and a table
that can't be read allows nothing. Then the entry's budget is asked. Every refusal, the zone's too,
leaves with its reason as an extended error (RFC 8914).
"""

# mypy: ignore-errors
# ruff: noqa: F821, ANN001, ANN201, ANN202, D103, ARG001, PTH116, PTH123

import ctypes
import os
import time

import _unboundmodule

from abox.name_table import NameTable, covering
from abox.query_budget import QueryBudget
from abox.reasons import Reason

TABLE_FILE = "/var/lib/abox/policy/names.json"

HIDDEN_TYPES = (64, 65)
"""SVCB and HTTPS: their hints are addresses, and agents don't need them to reach a proxy."""

EXTENDED_ERROR = 15
"""Number of the EDNS option."""
BLOCKED, PROHIBITED, NO_REACHABLE_AUTHORITY = 15, 18, 22
"""What the option says: a name off the list, a budget that is spent, an upstream that fails."""

TABLE_AGE_S = 0.1
"""How old the table may be where only the reason of a refusal depends on it."""

_append = _unboundmodule.edns_opt_list_append  # without the wrapper's frame: asked 100,000 times/s
_name_of = _unboundmodule._get_qname
_as_text = _unboundmodule.dnameAsStr

_state = {"stamp": None, "table": NameTable(), "read_s": 0.0}
_budget = QueryBudget()


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


def _error(code, reason):
    """The option's bytes: code and text."""
    return bytearray(code.to_bytes(2, "big") + reason.value.encode())


_BLOCKED = {reason: _error(BLOCKED, reason) for reason in Reason}
_SPENT = _error(PROHIBITED, Reason.QUERY_BUDGET)
_UNREACHABLE = _error(NO_REACHABLE_AUTHORITY, Reason.UPSTREAM_NAME)


def _explain_local(qinfo, qstate, rep, rcode, edns, options, region, repinfo, start_time):
    """Say why the policy zone denies a name."""
    if rcode == RCODE_NXDOMAIN:
        if start_time - _state["read_s"] > TABLE_AGE_S:
            _state["read_s"] = start_time
            _table()
        name = _as_text(_name_of(qinfo))[:-1].lower()
        _append(options, EXTENDED_ERROR, _BLOCKED[_state["table"].denial(name)], region)
    return True


def _explain(qinfo, qstate, rep, rcode, edns, options, region, repinfo, start_time):
    """Say why this script refuses; answers from upstream come with code 0, whatever they say."""
    if rcode == RCODE_NXDOMAIN:
        _append(options, EXTENDED_ERROR, _BLOCKED[_table().denial(_text(qinfo.qname))], region)
    elif rcode == RCODE_REFUSED:
        _append(options, EXTENDED_ERROR, _SPENT, region)
    return True


def _explain_failure(qinfo, qstate, rep, rcode, edns, options, region, repinfo, start_time):
    """Say that an allowed name could not be resolved."""
    _append(options, EXTENDED_ERROR, _UNREACHABLE, region)
    return True


def _forget_callbacks(env):
    """Empty the lists that this script registers in.

    Unbound 1.17 keeps what is registered over a reload, though it ends the interpreter that the
    functions belong to, and gives a script no way to take them back. Nobody else uses these lists.
    """
    lists = int(env.inplace_cb_lists)
    for kind in (inplace_cb_reply, inplace_cb_reply_local, inplace_cb_reply_servfail):
        ctypes.c_void_p.from_address(lists + kind * ctypes.sizeof(ctypes.c_void_p)).value = None


def init_standard(module_id, env):
    _forget_callbacks(env)
    return bool(
        register_inplace_cb_reply_local(_explain_local, env, module_id)
        and register_inplace_cb_reply(_explain, env, module_id)
        and register_inplace_cb_reply_servfail(_explain_failure, env, module_id)
    )


def deinit(module_id):
    return True


def inform_super(module_id, qstate, superqstate, qdata):
    return True


def _text(wire):
    """A name as text, lower case; what no host name can hold becomes a character that none has."""
    labels, at = [], 0
    while wire[at]:
        labels.append(wire[at + 1 : at + 1 + wire[at]].replace(b".", b"?"))
        at += 1 + wire[at]
    return b".".join(labels).decode("ascii", "replace").lower()


def _refuse(qstate, module_id, rcode):
    """End the query here, with an error."""
    qstate.return_rcode = rcode
    qstate.no_cache_store = 1
    qstate.ext_state[module_id] = MODULE_FINISHED


def _answer_nothing(qstate, module_id):
    """End the query here: the name is there, but no such record."""
    message = DNSMessage(
        qstate.qinfo.qname_str, qstate.qinfo.qtype, qstate.qinfo.qclass, PKT_QR | PKT_RA
    )
    if not message.set_return_msg(qstate):
        qstate.ext_state[module_id] = MODULE_ERROR
        return
    qstate.return_rcode = RCODE_NOERROR
    qstate.no_cache_store = 1
    qstate.ext_state[module_id] = MODULE_FINISHED


def _leads_to_denied(table, message):
    """Whether an alias of an allowed name leads to one on the denylist, which beats the allowlist.

    Names that are merely not on the allowlist are what aliases are for: every CDN is one.
    """
    if message is None or not table.deny:
        return False
    owners = {message.rep.rrsets[at].rk.dname for at in range(message.rep.an_numrrsets)}
    return any(host in table.deny for owner in owners for host in covering(_text(owner)))


def _look_at_answer(qstate, module_id):
    """An answer came from upstream: is it one for the agent?"""
    if _leads_to_denied(_table(), qstate.return_msg):
        invalidateQueryInCache(qstate, qstate.return_msg.qinfo)
        qstate.return_msg = None
        _refuse(qstate, module_id, RCODE_NXDOMAIN)
    else:
        qstate.ext_state[module_id] = MODULE_FINISHED


def operate(module_id, event, qstate, qdata):
    if event not in (MODULE_EVENT_NEW, MODULE_EVENT_PASS):
        _look_at_answer(qstate, module_id)
        return True
    name, table = _text(qstate.qinfo.qname), _table()
    if not table.allows(name):
        _refuse(qstate, module_id, RCODE_NXDOMAIN)
    elif qstate.qinfo.qtype in HIDDEN_TYPES:
        _answer_nothing(qstate, module_id)
    elif not _budget.spend(table.zone_of(name), table.queries_per_minute, time.monotonic()):
        _refuse(qstate, module_id, RCODE_REFUSED)
    else:
        qstate.ext_state[module_id] = MODULE_WAIT_MODULE
    return True
