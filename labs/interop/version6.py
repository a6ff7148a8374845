"""Nodes of Bundle Protocol 6 that no registry has: tried where their programs are on the PATH, else skipped."""

from pathlib import Path

from labs.interop.peer import SERVICE, OnPath, Unable, last_line, oldest_whole
from labs.rig.node import free_port


class Version6(OnPath):
    """A peer of version 6 over TCPCLv3. Bundles are made in version 6, with custody that the peer is asked to take."""

    reading = "lenient"
    protocol = "tcpcl3"
    spoken = ""
    send_options = ("--version", "6", "--custody")

    @classmethod
    def needs(cls) -> list[str]:
        return [*super().needs(), "bundle_versions = [6]"]


class IbrDtn(Version6):
    """IBR-DTN's dtnd, which takes type 10 for the age block."""

    name = "IBR-DTN (dtnd)"
    node_number = 40
    programs = ("dtnd", "dtnsend", "dtnrecv")
    says = "IBR-DTN"

    @classmethod
    def needs(cls) -> list[str]:
        return [*super().needs(), 'age_dialect = "type10"']

    def start(self) -> None:
        self.socket = self.directory / "api.sock"
        self.known: set[bytes] = set()
        for room in ("store", "blobs"):
            (self.directory / room).mkdir()
        config = self.directory / "dtnd.conf"
        # Without a store on disk it takes no custody.
        config.write_text("\n".join([
            f"local_uri = ipn:{self.node_number}.0", f"api_socket = {self.socket}", "discovery_announce = 0",
            f"storage_path = {self.directory / 'store'}", f"blob_path = {self.directory / 'blobs'}",
            "limit_blocksize = 1G", "limit_foreign_blocksize = 1G",
            "net_interfaces = lo0", "net_lo0_type = tcp", "net_lo0_interface = lo", f"net_lo0_port = {self.port}",
            "static1_address = 127.0.0.1", f"static1_port = {self.dhow_port}", "static1_uri = ipn:1.0",
            "static1_proto = tcp", "static1_immediately = yes", ""]))
        self.crew.start(["dtnd", "-c", str(config), "--nodiscovery"], log=self.directory / "dtnd.log")
        self.expect_listener(self.port, "dtnd")

    def send(self, file: Path) -> None:
        done = self.run("dtnsend", "-U", str(self.socket), f"ipn:1.{SERVICE}", str(file))
        if done.returncode != 0:
            raise Unable(f"dtnsend: {last_line(done.stderr or done.stdout)}")

    def received(self) -> bytes | None:
        output = self.directory / "received"
        done = self.run("dtnrecv", "-U", str(self.socket), "--name", str(SERVICE), "--count", "1", "--timeout", "5",
                        "--file", str(output))
        if not output.exists():
            return None
        payload = output.read_bytes()
        output.unlink()
        # A client that ends at once is given earlier bundles again, now and then.
        if payload in self.known or (not payload and done.returncode != 0):
            return None
        self.known.add(payload)
        return payload


class Dtnme(Version6):
    """NASA's DTNME with its stores in memory."""

    name = "DTNME (dtnme)"
    node_number = 30
    programs = ("dtnme", "send_me", "recv_me")

    def start(self) -> None:
        api, console = free_port(), free_port()
        self.api = ["-A", "127.0.0.1", "-B", str(api)]
        self.inbox = self.directory / "dtnme-inbox"
        for room in (self.inbox, self.directory / "payloads", self.directory / "db"):
            room.mkdir()
        config = self.directory / "dtnme.conf"
        config.write_text("\n".join([
            "console set stdio false", f"console set port {console}", f"api set local_port {api}",
            "storage set type memorydb", f"storage set payloaddir {self.directory / 'payloads'}",
            f"storage set dbdir {self.directory / 'db'}", "route set type static",
            f"route local_eid dtn://node{self.node_number}.dtn", f"route local_eid_ipn ipn:{self.node_number}.0",
            "param set announce_ipn true", "param set accept_custody true", "param set api_send_bp7 false",
            f"interface add in tcp3 local_addr=127.0.0.1 local_port={self.port}",
            f"link add out 127.0.0.1:{self.dhow_port} ALWAYSON tcp3", "route add ipn:1.* out", ""]))
        self.crew.start(["dtnme", "-t", "-c", str(config), "-o", str(self.directory / "dtnme-daemon.log")],
                        log=self.directory / "dtnme.log")
        self.expect_listener(self.port, "dtnme")
        self.crew.start(["recv_me", *self.api, "-q", "-t", "3600", "-o", str(self.inbox / "b######"),
                         f"ipn:{self.node_number}.{SERVICE}"], log=self.directory / "recv_me.log")

    def send(self, file: Path) -> None:
        done = self.run("send_me", *self.api, "-V", "6", "-1", "-c", "-s", f"ipn:{self.node_number}.2",
                        "-d", f"ipn:1.{SERVICE}", "-t", "f", "-p", str(file))
        if done.returncode != 0:
            raise Unable(f"send_me: {last_line(done.stderr or done.stdout)}")

    def received(self) -> bytes | None:
        return oldest_whole(self.inbox)
