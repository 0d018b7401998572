"""`abox explain`: which rule allows or denies a request, and why. Reads the settings alone."""

from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

import typer

from abox.allowlist import Allow, Deny, Request, Verdict, verdict
from abox.errors import AboxError
from cli.checkout import current_checkout
from cli.output import say, say_json
from cli.parameters import AsJson, Stack
from cli.stack_file import read_settings

PORTS = {"http": 80, "https": 443}


def explain(
    stack: Stack,
    url: Annotated[
        str, typer.Argument(help="URL, name, or name:port.", metavar="URL", show_default=False)
    ],
    *,
    method: Annotated[str, typer.Option(help="HTTP method.")] = "GET",
    as_json: AsJson = False,
) -> None:
    """Say which rule of STACK allows or denies a request for URL, and why.

    Judged from the stack's settings file, without touching a sandbox. What an allowed name
    resolves to is judged again by the proxy when it connects.
    """
    request = parse_target(url, method)
    policy = read_settings(current_checkout(), stack).policy
    judged = verdict(policy, request)
    if as_json:
        say_json(to_document(request, judged))
    else:
        say(in_words(stack, request, judged))


def parse_target(text: str, method: str) -> Request:
    """The request that a URL, a name or name:port stands for.

    Raises:
        AboxError: it is none of them.
    """
    parts, port = _split(text.strip())
    if not parts.hostname or parts.scheme not in PORTS or port == 0:
        raise AboxError(
            what=f"{text!r} is no URL, name or name:port",
            why="a request has a name and a port from 1 to 65535; its scheme is http or https",
            remedy="write for example https://example.com/path, example.com or example.com:8443",
        )
    scheme = "http" if "://" not in text and port == PORTS["http"] else parts.scheme
    name = parts.netloc.rpartition("@")[2]
    name = name[1 : name.index("]")] if name.startswith("[") else name.partition(":")[0]
    return Request(
        name=name,
        port=port or PORTS[scheme],
        scheme=scheme,
        method=method.upper(),
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
    )


def _split(text: str) -> tuple[SplitResult, int | None]:
    """Parts of a URL, with https where no scheme is given, and its port if it names one.

    The scheme of a result that can't be read is empty.
    """
    whole = text if "://" in text else f"https://{text}"
    if any(character.isspace() or not character.isprintable() for character in text):
        return SplitResult("", "", "", "", ""), None
    try:
        parts = urlsplit(whole)
        return parts, parts.port
    except ValueError:
        return SplitResult("", "", "", "", ""), None


def to_document(request: Request, judged: Verdict) -> dict[str, Any]:
    """The verdict for programs."""
    shared = {
        "name": request.name,
        "port": request.port,
        "scheme": request.scheme,
        "method": request.method,
        "path": request.path,
    }
    match judged:
        case Allow(rule, inject):
            return {
                **shared,
                "allowed": True,
                "rule": rule,
                "reason": None,
                "why": None,
                "inject": [one.to_document() for one in inject],
            }
        case Deny(reason, rule):
            return {
                **shared,
                "allowed": False,
                "rule": rule,
                "reason": reason.value,
                "why": reason.text,
                "inject": [],
            }


def in_words(stack: str, request: Request, judged: Verdict) -> str:
    """The verdict for people."""
    asked = f"{request.method} {request.scheme}://{request.name}:{request.port}{request.path}"
    match judged:
        case Allow(rule, inject):
            lines = [
                f"ALLOW  {asked}",
                f"  rule:   {rule}",
                *(f"  adds:   {one}" for one in inject),
            ]
            return "\n".join(lines)
        case Deny(reason, rule):
            lines = [f"DENY   {asked}", f"  reason: {reason.value}: {reason.text}"]
            lines += [f"  rule:   {rule}"] if rule else []
            lines += [f"  to allow it: {_advice(stack, request, judged)}"]
            return "\n".join(lines)


def _advice(stack: str, request: Request, denied: Deny) -> str:
    """What to do if the request should pass."""
    if denied.reason == "not_allowed":
        return f"abox allow {stack} {request.name}"
    if denied.reason == "denied":
        return f"take {denied.rule} out of `deny` in stacks/Pulumi.{stack}.yaml"
    if denied.reason in ("port_not_allowed", "method_not_allowed", "path_not_allowed"):
        return f"widen the entry in stacks/Pulumi.{stack}.yaml, then `pulumi up -s {stack}`"
    if denied.reason == "tls_required":
        return "ask by https"
    return "ask for the origin by its proper name; this form is never allowed"
