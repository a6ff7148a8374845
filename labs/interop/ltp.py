"""Nodes that speak LTP: ION and HDTN, tried where their programs are on the PATH, with and without loss on the way."""

import json
import os
import socket
import subprocess
import time
from pathlib import Path

from labs.interop.peer import PATIENCE_S, SERVICE, OnPath, Skipped, Unable, last_line, oldest_whole
from labs.rig.crew import Crew
from labs.rig.lossy import LossyRelay
from labs.rig.node import Link, Node, Settings, free_port

# Of both ends. ION reads each datagram into its database, and its socket is no larger than others.
RATE_BITS_PER_S = 20_000_000

# Octets of a segment, and milliseconds that no path over loopback takes.
SEGMENT_OCTETS = 1_400
LIGHT_TIME_MS = 10

# Bundles that a peer must hold, octets: several copies of the largest.
HELD_OCTETS = 600_000_000


class OverLtp(OnPath):
    """A peer behind a relay, by which datagrams are lost."""

    protocol = "ltp"
    transport = socket.SOCK_DGRAM
    spoken = "ltp"
    losses = (0.0, 0.05)
    more_losses = (0.01,)
    engine: int  # of the peer

    def __init__(self, crew: Crew, dhow: Path, directory: Path) -> None:
        self.relay = LossyRelay(0.0, seed=7)
        super().__init__(crew, dhow, directory)

    def settings(self) -> Settings:
        self.way_to_dhow = self.relay.towards(("127.0.0.1", self.dhow_port))
        way = self.relay.towards(("127.0.0.1", self.port))
        policy = [f'peer = "ipn:{self.engine}.0"', f'rate = "{RATE_BITS_PER_S}bit"', f'light_time = "{LIGHT_TIME_MS}ms"', *self.needs()]
        return Settings(
            "ipn:1.0", f"127.0.0.1:{self.dhow_port}", "ltp",
            links=[Link("peer", f"127.0.0.1:{way}", "\n".join(policy), "ltp")],
            routes=[(f"ipn:{self.node_number}.*", "peer")])

    @property
    def own_frames(self) -> str:
        # tshark 4.0 takes acknowledgments of cancellations of eight octets, without extensions, for malformed.
        return f"udp.srcport == {self.dhow_port} && !(ltp.type in {{13, 15}})"

    def lose(self, lost: float) -> None:
        self.relay.lost = lost


class Ion(OverLtp):
    """ION of either version, in a PID namespace, since some of its commands signal every process that they can reach."""

    name = "ION over LTP"
    node_number = engine = 2
    programs = ("ionadmin", "ltpadmin", "bpadmin", "ipnadmin", "udplsi", "udplso", "bpsendfile", "bprecvfile", "bpversion",
                "unshare", "nsenter")

    @classmethod
    def look(cls) -> None:
        super().look()
        if os.geteuid() != 0:
            raise Skipped("ION runs in a PID namespace here, which takes root")

    def start(self) -> None:
        if "bpv6" in self.run("bpversion").stdout:
            self.send_options = ("--version", "6")
        home = self.crew.start([
            "unshare", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
            "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && echo ready && exec sleep infinity"], log=self.directory / "ion.log")
        if home.line(PATIENCE_S) != "ready":
            raise Unable("a PID namespace could not be made")
        self.first = Path(f"/proc/{home.pid}/task/{home.pid}/children").read_text().split()[0]
        octets_per_s = RATE_BITS_PER_S // 8
        files = {
            "ionconfig": [f"pathName {self.directory}", "configFlags 1", "wmSize 20000000", f"heapWords {HELD_OCTETS // 4}"],
            "ionadmin": [f"1 {self.node_number} {self.directory / 'ionconfig'}", "s",
                         f"a contact +0 +360000 {self.node_number} 1 {octets_per_s}",
                         f"a contact +0 +360000 1 {self.node_number} {octets_per_s}",
                         f"a range +0 +360000 1 {self.node_number} 0"],
            # By maxber it knows how many reports a block may take.
            "ltpadmin": ["1 100", "m maxber .00002",
                         f"a span 1 100 100 {SEGMENT_OCTETS} 20000 1 'udplso 127.0.0.1:{self.way_to_dhow}'",
                         f"s 'udplsi 127.0.0.1:{self.port}'"],
            "bpadmin": ["1", "a scheme ipn 'ipnfw' 'ipnadminep'",
                        *(f"a endpoint ipn:{self.node_number}.{service} q" for service in (0, 1, SERVICE)),
                        f"a protocol ltp {SEGMENT_OCTETS} 100", f"a induct ltp {self.node_number} ltpcli",
                        "a outduct ltp 1 ltpclo", f"r 'ipnadmin {self.directory}/ipnadmin'", "s"],
            "ipnadmin": ["a plan 1 ltp/1"],
        }
        for name, lines in files.items():
            (self.directory / name).write_text("\n".join([*lines, ""]))
        for name in ("ionadmin", "ltpadmin", "bpadmin"):
            # Programs that it starts keep the log open.
            with (self.directory / "admin.log").open("ab") as log:
                subprocess.run(self.inside(name, str(self.directory / name)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               timeout=PATIENCE_S, check=False)
            time.sleep(0.5)
        # Until its tasks run it cancels blocks, and dhow tries a minute later again.
        time.sleep(2)
        # It ends with its namespace, not with nsenter, and must not hold the crew's pipe meanwhile.
        receiver = self.inside("bprecvfile", f"ipn:{self.node_number}.{SERVICE}")
        self.crew.start(["sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh", *receiver])

    def inside(self, *words: str) -> list[str]:
        """The words of a command in ION's namespaces."""
        return ["nsenter", "-t", self.first, "-p", "-i", "-m", f"--wd={self.directory}", *words]

    def send(self, file: Path) -> None:
        if file.stat().st_size == 0:
            raise Unable("bpsendfile sends no empty files")
        done = self.run(*self.inside("bpsendfile", f"ipn:{self.node_number}.1", f"ipn:1.{SERVICE}", str(file), "0.1"))
        if done.returncode != 0:
            raise Unable(f"bpsendfile: {last_line(done.stderr or done.stdout)}")

    def received(self) -> bytes | None:
        # Blocks and logs of its other programs are beside it.
        return oldest_whole(self.directory, "testfile*")


class Hdtn(OverLtp):
    """HDTN between two dhow nodes: over LTP to one, over STCP to the other, at which applications are."""

    name = "HDTN over LTP"
    node_number = 3
    engine = 10
    programs = ("hdtn-one-process",)

    def start(self) -> None:
        enters, leaves, router, telemetry = (free_port() for _ in range(4))
        induct, outduct = self.ways()
        self.far = Node(self.crew, self.node.binary, self.directory / "far", Settings(
            f"ipn:{self.node_number}.0", f"127.0.0.1:{leaves}", "stcp",
            links=[Link("hdtn", f"127.0.0.1:{enters}", f'peer = "ipn:{self.engine}.0"', "stcp")], routes=[("ipn:1.*", "hdtn")]))
        self.far.start()
        ltp = {
            "thisLtpEngineId": self.engine, "remoteLtpEngineId": 1, "clientServiceId": 1,
            "oneWayLightTimeMs": LIGHT_TIME_MS, "oneWayMarginTimeMs": 40, "numRxCircularBufferElements": 4000,
            "ltpMaxRetriesPerSerialNumber": 5, "ltpRandomNumberSizeBits": 32, "ltpMaxUdpPacketsToSendPerSystemCall": 1,
            "keepActiveSessionDataOnDisk": False, "activeSessionDataOnDiskNewFileDurationMs": 2000,
            "activeSessionDataOnDiskDirectory": str(self.directory),
        }
        pipeline = {"maxNumberOfBundlesInPipeline": 50, "maxSumOfBundleBytesInPipeline": 2 * HELD_OCTETS}
        config = {
            "hdtnConfigName": "interop", "userInterfaceOn": False, "mySchemeName": "unused", "myNodeId": self.engine,
            "myBpEchoServiceId": 2047, "myCustodialSsp": "unused", "myCustodialServiceId": 0, "myRouterServiceId": 100,
            "isAcsAware": True, "acsMaxFillsPerAcsPacket": 100, "acsSendPeriodMilliseconds": 1000,
            "retransmitBundleAfterNoCustodySignalMilliseconds": 10000, "maxBundleSizeBytes": HELD_OCTETS,
            "maxIngressBundleWaitOnEgressMilliseconds": 2000, "bufferRxToStorageOnLinkUpSaturation": False,
            "maxLtpReceiveUdpPacketSizeBytes": 65536, "neighborDepletedStorageDelaySeconds": 0,
            "fragmentBundlesLargerThanBytes": 0, "enforceBundlePriority": False,
            "zmqBoundRouterPubSubPortPath": router, "zmqBoundTelemApiPortPath": telemetry,
            "inductsConfig": {"inductConfigName": "in", "inductVector": [
                ltp | induct | {
                    "name": "ltp", "ltpReportSegmentMtu": 1000, "preallocatedRedDataBytes": 200_000,
                    "ltpRxDataSegmentSessionNumberRecreationPreventerHistorySize": 1000,
                    "ltpMaxExpectedSimultaneousSessions": 500, "delaySendingOfReportSegmentsTimeMsOrZeroToDisable": 20},
                {"name": "stcp", "convergenceLayer": "stcp", "boundPort": enters, "numRxCircularBufferElements": 200,
                 "keepAliveIntervalSeconds": 15}]},
            "outductsConfig": {"outductConfigName": "out", "outductVector": [
                ltp | pipeline | outduct | {
                    "name": "ltp", "nextHopNodeId": 1,
                    "ltpDataSegmentMtu": SEGMENT_OCTETS - 40, "ltpCheckpointEveryNthDataSegment": 0,
                    "ltpSenderPingSecondsOrZeroToDisable": 15,
                    "delaySendingOfDataSegmentsTimeMsOrZeroToDisable": 20},
                pipeline | {"name": "stcp", "convergenceLayer": "stcp", "nextHopNodeId": self.node_number,
                            "remoteHostname": "127.0.0.1", "remotePort": leaves, "keepAliveIntervalSeconds": 17}]},
            "storageConfig": {
                "storageImplementation": "asio_single_threaded", "tryToRestoreFromDisk": False, "autoDeleteFilesOnExit": True,
                "totalStorageCapacityBytes": 4 * HELD_OCTETS, "storageDeletionPolicy": "never", "storageDiskConfigVector": [
                    {"name": name, "storeFilePath": str(self.directory / f"{name}.bin")} for name in ("store1", "store2")]},
        }
        plan = {"contacts": [
            {"contact": number, "source": source, "dest": to, "startTime": 0, "endTime": 200_000, "rateBitsPerSec": rate, "owlt": 0}
            for number, (source, to, rate) in enumerate([
                (self.engine, 1, RATE_BITS_PER_S), (1, self.engine, RATE_BITS_PER_S),
                (self.engine, self.node_number, 10**9), (self.node_number, self.engine, 10**9)])]}
        for name, content in (("hdtn", config), ("plan", plan)):
            (self.directory / f"{name}.json").write_text(json.dumps(content))
        # It looks for a contact plan of its own even where it is given one.
        self.crew.start(
            ["env", f"HDTN_SOURCE_ROOT={self.directory}", "hdtn-one-process", "--hdtn-config-file",
             str(self.directory / "hdtn.json"), "--contact-plan-file", str(self.directory / "plan.json")],
            log=self.directory / "hdtn.log")
        self.expect_listener(enters, "hdtn-one-process")

    def ways(self) -> tuple[dict[str, object], dict[str, object]]:
        """The ways to dhow, as its induct and its outduct have them."""
        udp: dict[str, object] = {"convergenceLayer": "ltp_over_udp"}
        return (
            udp | {"boundPort": self.port, "ltpRemoteUdpHostname": "127.0.0.1", "ltpRemoteUdpPort": self.way_to_dhow},
            udp | {"ltpSenderBoundPort": self.port, "remoteHostname": "127.0.0.1", "remotePort": self.way_to_dhow})

    def send(self, file: Path) -> None:
        done = self.far.run("send", *self.send_options, f"ipn:1.{SERVICE}", str(file))
        if done.returncode != 0:
            raise Unable(f"dhow send: {last_line(done.stderr)}")

    def received(self) -> bytes | None:
        inbox = self.directory / "far-inbox"
        self.far.run("recv", f"ipn:{self.node_number}.{SERVICE}", "--count", "1", "--out", str(inbox), "--timeout", "5s")
        return oldest_whole(inbox) if inbox.exists() else None


class Hdtn6(Hdtn):
    """The peer with bundles of version 6."""

    name = "HDTN over LTP, version 6"
    send_options = ("--version", "6")


class HdtnEncapsulated(Hdtn):
    """The peer with LTP in encapsulation packets: it has a Unix socket for each direction, and dhow a program between these and its datagrams."""

    name = "HDTN over LTP in encapsulation packets"
    losses = (0.0,)  # nothing is lost in a stream
    more_losses = ()

    def settings(self) -> Settings:
        policy = [f'peer = "ipn:{self.engine}.0"', f'rate = "{RATE_BITS_PER_S}bit"', f'light_time = "{LIGHT_TIME_MS}ms"']
        return Settings(
            "ipn:1.0", f"127.0.0.1:{self.dhow_port}", "ltp",
            links=[Link("peer", f"127.0.0.1:{self.port}", "\n".join(policy), "ltp")],
            routes=[(f"ipn:{self.node_number}.*", "peer")])

    def ways(self) -> tuple[dict[str, object], dict[str, object]]:
        into, out = (str(self.directory / f"{name}.sock") for name in ("in", "out"))
        joint = self.crew.start([
            str(self.node.binary), "ltp", "encapsulate", "--listen", f"127.0.0.1:{self.port}", "--to",
            f"127.0.0.1:{self.dhow_port}", f"unix:{into}", "--to-senders", f"unix-listen:{out}"], log=self.directory / "joint.log")
        joint.line(PATIENCE_S)
        stream: dict[str, object] = {"convergenceLayer": "ltp_over_encap_local_stream"}
        return stream | {"ltpEncapLocalSocketOrPipePath": into}, stream | {"ltpEncapLocalSocketOrPipePath": out}
