"""Carries out actions that arrive as JSON lines on standard input, one answer line each."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.cases.probe import dns, http, sockets
from tests.cases.probe.streams import PlainStream

MANY_AT_ONCE = 8
"""Requests at the same time where a case asks for many names."""


class Prober:
    """Actions of one agent; keeps connections open where asked."""

    def __init__(self, proxy: tuple[str, int]) -> None:
        self._proxy = proxy
        self._kept: list[http.Conversation] = []
        self._actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "http": self._http,
            "raw": self._raw,
            "dns": self._dns,
            "socket": sockets.attempt,
            "frame": sockets.send_frame,
            "forget": self._forget,
            "ping": lambda _: "pong",
        }

    def perform(self, request: dict[str, Any]) -> dict[str, Any]:
        """One action; also how long it took."""
        start = time.monotonic()
        try:
            result = self._actions[request["kind"]](request["action"])
        except Exception as error:  # noqa: BLE001  # the runner wants to know, whatever it is
            return {"error": f"{type(error).__name__}: {error}"}
        return {"result": result, "seconds": time.monotonic() - start}

    def _forget(self, _action: dict[str, Any]) -> None:
        for conversation in self._kept:
            conversation.stream.close()
        self._kept.clear()

    def _http(self, action: dict[str, Any]) -> list[dict[str, Any]]:
        times = int(action.get("times") or 1)
        if action.get("reuse"):
            kept = self._kept[-1] if self._kept else None
            if kept is None:
                return [http.Response("closed", error="nothing established").to_document()]
            return [self._once(action, turn, kept) for turn in range(times)]
        if times > 1 and "{n}" in action["url"]:
            with ThreadPoolExecutor(MANY_AT_ONCE) as pool:
                return list(pool.map(lambda turn: self._once(action, turn, None), range(times)))
        return [self._once(action, turn, None) for turn in range(times)]

    def _once(
        self, action: dict[str, Any], turn: int, kept: http.Conversation | None
    ) -> dict[str, Any]:
        filled = json.loads(dns.fresh(json.dumps(action), turn))
        response, conversation = http.request(self._proxy, filled, kept)
        if conversation is not None and action.get("keep"):
            self._kept.append(conversation)
        elif conversation is not None and kept is None:
            conversation.stream.close()
        return response.to_document()

    def _raw(self, action: dict[str, Any]) -> dict[str, Any]:
        count = int(action.get("connections") or 1)
        if count > 1:
            return self._crowd(action, count)
        return http.raw(self._proxy, action, int(action.get("answers") or 1))

    def _crowd(self, action: dict[str, Any], count: int) -> dict[str, Any]:
        """Many connections held open; meanwhile another client asks for the health page."""
        streams = []
        for _ in range(count):
            stream = PlainStream(*self._proxy)
            stream.send(action["raw"].encode("latin-1"))
            streams.append(stream)
        hold_s = float(action.get("hold_s") or 0)
        start, worst, alive = time.monotonic(), 0.0, True
        while time.monotonic() - start < hold_s:
            asked = time.monotonic()
            ask = {"method": "GET", "url": "http://healthcheck.abox.local/", "via": "proxy"}
            response, conversation = http.request(self._proxy, ask)
            if conversation is not None:
                conversation.stream.close()
            alive = alive and response.status == 200
            worst = max(worst, time.monotonic() - asked)
            time.sleep(1)
        for stream in streams:
            stream.close()
        return {"responses": [], "closed": False, "alive": alive, "worst_s": worst}

    def _dns(self, action: dict[str, Any]) -> list[dict[str, Any]]:
        server, port = self._proxy[0], 53
        if int(action.get("times") or 1) > 1:
            return dns.burst(server, port, action)
        if "wire" in action:
            message = bytes.fromhex(str(action["wire"]))
            return [dns.ask(server, port, message, tries=1, resend_s=3)]
        if "labels" in action:
            labels = [label.encode("latin-1") for label in action["labels"]]
        else:
            labels = dns.to_labels(dns.fresh(action["name"], 0))
        message = dns.question(labels, action.get("type", "A"), action.get("edns"))
        return [dns.ask(server, port, message)]


def serve(host: str, port: int) -> int:
    """Answer until standard input ends. Requests with ``later`` run in the background."""
    prober = Prober((host, port))
    lock = threading.Lock()

    def answer(request: dict[str, Any]) -> None:
        result = prober.perform(request)
        with lock:
            sys.stdout.write(json.dumps({"id": request["id"], **result}) + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        request = json.loads(line)
        if request.get("later"):
            threading.Thread(target=answer, args=(request,), daemon=True).start()
        else:
            answer(request)
    return 0
