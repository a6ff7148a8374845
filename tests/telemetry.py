"""Telemetry: traces of bundles and metrics by OTLP, read with OpenTelemetry's own messages, and by its collector where there is one."""

import hashlib
import http.server
import json
import os
import shutil
import socket
import threading
import time
import unittest
from collections import defaultdict
from dataclasses import dataclass, field

from labs.rig.binary import dhow, has
from labs.rig.node import Link, Node, Settings, free_port
from tests.libraries import use
from tests.workplace import Exchange

LIBRARIES = ["opentelemetry-proto", "protobuf"]

# A step takes no longer than this, seconds.
PATIENCE_S = 60.0

# OpenTelemetry's StatusCode of a span that failed.
ERROR = 2


@dataclass(frozen=True)
class Span:
    """A span as a collector has it."""

    trace: str
    id: str
    parent: str
    name: str
    node: str
    begun: int
    ended: int
    status: int
    attributes: dict = field(hash=False, compare=False)


def plain(attributes) -> dict:
    """Attributes as values of Python."""
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in attributes}


class Collector:
    """A collector that keeps what it is told, or behaves as it is told to."""

    def __init__(self, port: int = 0, manner: str = "takes") -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
        self.spans: list[Span] = []
        self.metrics: dict[str, object] = {}
        self.requests = 0
        self.manner = manner
        self.over = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One request."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests += 1
                if collector.manner == "takes":
                    assert self.headers["Content-Type"] == "application/x-protobuf"
                    if self.path == "/v1/traces":
                        collector.keep(ExportTraceServiceRequest.FromString(body))
                    elif self.path == "/v1/metrics":
                        collector.keep_metrics(ExportMetricsServiceRequest.FromString(body))
                    self.answer(200)
                elif collector.manner == "slow":
                    collector.over.wait(PATIENCE_S)
                elif collector.manner == "endless":
                    self.send_response(200)
                    self.end_headers()
                    while not collector.over.is_set():
                        self.wfile.write(bytes(65536))
                else:
                    self.answer(int(collector.manner))

            def answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.send_header("Retry-After", "99999999999999999999")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            """Peers that cut a connection are no fault."""

            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def keep(self, request) -> None:
        for of_node in request.resource_spans:
            node = plain(of_node.resource.attributes)["service.instance.id"]
            for spans in of_node.scope_spans:
                self.spans += [
                    Span(it.trace_id.hex(), it.span_id.hex(), it.parent_span_id.hex(), it.name, node, it.start_time_unix_nano,
                         it.end_time_unix_nano, it.status.code, plain(it.attributes)) for it in spans.spans]

    def keep_metrics(self, request) -> None:
        for of_node in request.resource_metrics:
            for metrics in of_node.scope_metrics:
                self.metrics |= {it.name: it for it in metrics.metrics}

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def trace_of(bundle: str) -> str:
    """The trace of a bundle by its name (docs/telemetry.md)."""
    return hashlib.sha256(bundle.encode()).hexdigest()[:32]


def listens(port: int) -> bool:
    """Whether anybody answers at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Traced(Exchange):
    """Three nodes in a chain, 1, 2 and 3."""

    def setUp(self) -> None:
        use("telemetry", LIBRARIES)
        if not has("otlp", dhow("debug")):
            self.skipTest("the program was built without the feature otlp")
        super().setUp()

    def collector(self, manner: str = "takes", port: int = 0) -> Collector:
        collector = Collector(port, manner)
        self.addCleanup(collector.close)
        return collector

    def chain(self, port: int, *more: str) -> list[Node]:
        """Three nodes that run and tell the collector at a port."""
        nodes: list[Node] = []
        telemetry = "\n".join([f'[telemetry]\nendpoint = "http://127.0.0.1:{port}"\ninterval = "200ms"', *(more or ["sample = 1"])]) + "\n"
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
        for at, address in enumerate(addresses):
            ahead = addresses[at + 1:at + 2]
            nodes.append(Node(self.crew, dhow("debug"), self.directory / f"node{at + 1}", Settings(
                f"ipn:{at + 1}.0", address, links=[Link("next", it) for it in ahead], routes=[("ipn:*.*", "next")] if ahead else [],
                more=telemetry + '[reports]\ngenerate = []\n')))
        for node in reversed(nodes):
            node.start()
        return nodes

    def until(self, what: str, holds) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def sent(self, node: Node, to: str, *words: str, octets: int = 1_000) -> str:
        """The name of a bundle that was sent."""
        done = node.run("send", to, str(self.payload(octets)), "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads(done.stdout.splitlines()[0])
        return "/".join(map(str, [record["source"], *record["creation"]]))


class Life(Traced):
    """The spans of bundles at a collector."""

    def assert_whole(self, spans: list[Span]) -> dict[str, list[Span]]:
        """One trace without gaps: every parent is there and began no later, and only the first span has none."""
        by_id = {span.id: span for span in spans}
        self.assertEqual(len(by_id), len(spans), "span IDs are unique")
        self.assertEqual(len({span.trace for span in spans}), 1)
        roots = [span for span in spans if not span.parent]
        self.assertEqual([(root.name, root.node) for root in roots], [("create", "ipn:1.0")])
        for span in spans:
            self.assertLessEqual(span.begun, span.ended)
            if span.parent:
                self.assertIn(span.parent, by_id, span)
                self.assertLessEqual(by_id[span.parent].begun, span.begun, span)
        named = defaultdict(list)
        for span in spans:
            named[span.name].append(span)
        return named

    def test_a_bundle_over_three_nodes_is_one_trace_with_the_wait_for_a_link_that_is_down(self) -> None:
        collector = self.collector()
        one, two, three = self.chain(collector.port)
        two.link_down("next")
        bundle = self.sent(one, "ipn:3.42")
        self.until("it waits at the second node", lambda: two.show("status")["store"]["bundles"] == 1)
        two.link_up("next")
        self.take(three, "ipn:3.42", 1_000)
        self.until("the last span is told", lambda: any(span.name == "deliver" for span in collector.spans))
        for node in (one, two, three):
            self.assertEqual(node.stop(), 0)
        spans = [span for span in collector.spans if span.trace == trace_of(bundle)]
        self.assertEqual(len(spans), len(collector.spans), "nothing else was traced")
        named = self.assert_whole(spans)
        self.assertEqual({span.node for span in named["store"]}, {"ipn:1.0", "ipn:2.0", "ipn:3.0"})
        by_id = {span.id: span for span in spans}
        way = [named["deliver"][0]]
        while way[-1].parent:
            way.append(by_id[way[-1].parent])
        self.assertEqual([(span.name, span.node) for span in reversed(way)], [
            ("create", "ipn:1.0"), ("send", "ipn:1.0"), ("receive", "ipn:2.0"), ("send", "ipn:2.0"), ("receive", "ipn:3.0"), ("deliver", "ipn:3.0")])
        [wait] = [span for span in named["wait"] if span.node == "ipn:2.0"]
        self.assertEqual((wait.attributes["wait.reason"], wait.attributes["wait.next_hop"]), ("no_session", "ipn:3.0"))
        [sent] = [span for span in named["send"] if span.node == "ipn:2.0"]
        # The clocks may be set while they are looked at.
        self.assertAlmostEqual(wait.ended, sent.begun, delta=2_000_000)
        self.assertEqual(sent.attributes["neighbour"], "ipn:3.0")
        self.assertEqual(wait.attributes["bundle"], bundle)
        self.assertEqual({span.status for span in spans}, {0})

    def test_fragments_are_of_the_trace_of_their_whole(self) -> None:
        collector = self.collector()
        nodes = self.chain(collector.port)
        one, two, three = nodes
        two.stop()
        two.settings.links[0].policy = "fragment = 20000\n"
        two.start()
        bundle = self.sent(one, "ipn:3.42", octets=50_000)
        self.take(three, "ipn:3.42", 50_000)
        self.until("the last span is told", lambda: any(span.name == "deliver" for span in collector.spans))
        for node in nodes:
            node.stop()
        spans = [span for span in collector.spans if span.trace == trace_of(bundle)]
        named = self.assert_whole(spans)
        came = sorted((it.attributes["fragment.offset"], it.attributes["fragment.length"]) for it in named["receive"] if it.node == "ipn:3.0")
        self.assertEqual(came, [(0, 20_000), (20_000, 20_000), (40_000, 10_000)])
        [whole] = named["reassemble"]
        self.assertEqual(named["deliver"][0].parent, whole.id)

    def test_a_bundle_that_expires_ends_with_a_fault_that_says_so(self) -> None:
        collector = self.collector()
        one, *_ = self.chain(collector.port)
        one.link_down("next")
        bundle = self.sent(one, "ipn:3.42", "--lifetime", "1s")
        self.until("it has expired", lambda: any(span.name == "expire" for span in collector.spans))
        named = self.assert_whole([span for span in collector.spans if span.trace == trace_of(bundle)])
        self.assertEqual((named["expire"][0].status, named["expire"][0].attributes["reason.code"]), (ERROR, 1))
        self.assertEqual(named["wait"][0].attributes["wait.reason"], "no_session")

    def test_all_nodes_sample_the_same_bundles(self) -> None:
        collector = self.collector()
        one, two, three = self.chain(collector.port, "sample = 0.5")
        bundles = [self.sent(one, "ipn:3.42") for _ in range(24)]
        self.take(three, "ipn:3.42", *[1_000] * 24)
        for node in (one, two, three):
            node.stop()
        due = {trace for trace in map(trace_of, bundles) if int(trace[16:], 16) < 1 << 63}
        for node in ("ipn:1.0", "ipn:2.0", "ipn:3.0"):
            self.assertEqual({span.trace for span in collector.spans if span.node == node}, due)
        traces = {span.trace for span in collector.spans if span.name == "deliver"}
        self.assertEqual(traces, due)

    def test_nothing_is_traced_with_a_sample_of_zero_and_metrics_are_told_all_the_same(self) -> None:
        collector = self.collector()
        one, _, three = self.chain(collector.port, "sample = 0")
        self.sent(one, "ipn:3.42")
        self.take(three, "ipn:3.42", 1_000)

        def told() -> set[str]:
            text = three.admin("/metrics").splitlines()
            return {line.split()[2] for line in text if line.startswith("# TYPE")} - {line.split()[2] for line in text if line.startswith("# HELP")}

        families = {line.partition("{")[0].split()[0].removesuffix("_total") for line in three.admin("/metrics").splitlines() if not line.startswith("#")}
        self.assertEqual(told(), set())
        self.until("all metrics are told", lambda: families <= set(collector.metrics))
        delivered = "dhow_bundles_delivered"
        self.until("the counter is told", lambda: any(it.as_int == 1 for it in collector.metrics[delivered].sum.data_points))
        self.assertTrue(collector.metrics[delivered].sum.is_monotonic)
        self.assertEqual(collector.spans, [])


class Away(Traced):
    """Collectors that are away, or hostile."""

    def exchange(self, nodes: list[Node], count: int) -> None:
        one, _, three = nodes
        self.send(one, "ipn:3.42", *[1_000] * count)
        self.take(three, "ipn:3.42", *[1_000] * count)

    def test_a_collector_that_dies_and_comes_back_is_told_what_waited(self) -> None:
        collector = self.collector()
        nodes = self.chain(collector.port)
        self.exchange(nodes, 3)
        self.until("it is told", lambda: len({span.trace for span in collector.spans}) == 3)
        collector.close()
        self.exchange(nodes, 3)
        self.until("it is missed", lambda: nodes[0].metrics()["dhow_telemetry_failures_total"] > 0)
        again = self.collector(port=collector.port)
        self.until("it is told what waited", lambda: len({span.trace for span in again.spans if span.name == "deliver"}) == 3)
        self.assertEqual(sum(node.metrics()["dhow_telemetry_spans_dropped_total"] for node in nodes), 0)
        self.until("the log says so", lambda: "the collector takes telemetry again" in nodes[0].last_words(100))

    def hostile(self, manner: str) -> list[Node]:
        """Nodes work as always and end in order."""
        collector = self.collector(manner)
        nodes = self.chain(collector.port)
        self.exchange(nodes, 5)
        self.until("it was asked", lambda: collector.requests > 0)
        self.exchange(nodes, 5)
        return nodes

    def test_nodes_outlive_a_collector_that_never_answers(self) -> None:
        for node in self.hostile("slow"):
            self.assertEqual(node.stop(), 0)

    def test_nodes_outlive_an_answer_without_an_end(self) -> None:
        for node in self.hostile("endless"):
            self.assertLess(node.memory_octets(), 200 << 20)
            self.assertEqual(node.stop(), 0)

    def test_spans_that_are_refused_for_good_are_counted(self) -> None:
        nodes = self.hostile("500")
        self.until("they are counted", lambda: nodes[0].metrics()["dhow_telemetry_spans_dropped_total"] > 0)
        for node in nodes:
            self.assertEqual(node.stop(), 0)
            lines = node.log.read_text().count("does not take telemetry")
            self.assertLessEqual(lines, 2, "one line of spans, one of metrics")

    def test_a_collector_that_is_busy_for_ever_holds_no_node_up(self) -> None:
        for node in self.hostile("503"):
            self.assertEqual(node.stop(), 0)


class Real(Traced):
    """OpenTelemetry's own collector."""

    def test_the_collector_takes_what_nodes_tell(self) -> None:
        program = os.environ.get("OTELCOL") or shutil.which("otelcol-contrib")
        if not program:
            self.skipTest("no otelcol-contrib, and OTELCOL names no collector with a file exporter")
        port, told = free_port(), self.directory / "told.json"
        settings = self.directory / "collector.yaml"
        settings.write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": {"file": {"path": str(told)}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {kind: {"receivers": ["otlp"], "exporters": ["file"]} for kind in ("traces", "metrics")}},
        }), encoding="utf-8")
        self.crew.start([program, f"--config={settings}"], log=self.directory / "collector.log")
        self.until("the collector listens", lambda: listens(port))
        one, two, three = self.chain(port)
        bundle = self.sent(one, "ipn:3.42")
        self.take(three, "ipn:3.42", 1_000)

        def kept() -> list[dict]:
            lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
            return [json.loads(line) for line in lines if line.endswith("}")]

        def spans() -> list[dict]:
            scopes = [scope for it in kept() for node in it.get("resourceSpans", []) for scope in node["scopeSpans"]]
            return [span for scope in scopes for span in scope["spans"]]

        self.until("all spans are there", lambda: {"deliver", "create"} <= {span["name"] for span in spans()} and len(spans()) >= 9)
        self.assertEqual({span["traceId"] for span in spans()}, {trace_of(bundle)})
        self.until("metrics are there", lambda: any("resourceMetrics" in it for it in kept()))
        for node in (one, two, three):
            self.assertEqual(node.stop(), 0)
            self.assertNotIn("does not take telemetry", node.log.read_text())


if __name__ == "__main__":
    unittest.main()
