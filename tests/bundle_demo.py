"""`make bundle-demo`: the demo across an air gap, for real, on one machine.

A bundle is created (killed on the way, and gone on with) and checked. Then, in namespaces of their own, it is received:
an empty Docker data root, an empty home, and a network whose only way out is a sink that counts. The launcher is
installed out of the bundle, the import is killed on the way and gone on with, the demo comes up and is verified. At the
end the sink must have counted nothing, DNS and containers included. Root, Docker and iproute2 are needed.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "images" / "docker-engine.sh"
PRESET = "demo"
SINK, OUTSIDE = "sink0", "10.99.0.2"
WAIT_S = 120


def step(text: str) -> None:
    print(f"\n== {text}", flush=True)


def run(*argv: str | Path, **environment: str) -> None:
    """Run a command to a good end."""
    print("$", *argv, flush=True)
    subprocess.run([str(word) for word in argv], check=True, env={**os.environ, **environment}, timeout=1800)


def killed(*argv: str | Path, when: Callable[[], bool], **environment: str) -> None:
    """Run a command, and kill it without warning at a moment in its middle."""
    print("$", *argv, "   (killed on the way)", flush=True)
    process = subprocess.Popen([str(word) for word in argv], env={**os.environ, **environment})
    end = time.monotonic() + WAIT_S
    while not when():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise SystemExit("it ended before it could be killed on the way")
        time.sleep(0.002)
    process.kill()
    process.wait(30)


def send(folder: Path) -> None:
    """Create the bundle in folder/bundle and check it."""
    spec, bundle = (sys.executable, "-m", "appliance"), folder / "bundle"
    blobs = bundle / "blobs" / "sha256"
    state = {"XDG_STATE_HOME": str(folder / "sender")}
    step("create a bundle, killed on the way, and again")
    run(*spec, "bundle", "keygen", "-o", folder / "key")
    create = (*spec, "bundle", "create", PRESET, "-o", bundle, "--key", folder / "key")
    killed(*create, when=lambda: any(blobs.glob(".new-*.000")), **state)
    assert not (bundle / "bundle.json").exists(), "a bundle that is not complete has no manifest"
    run(*create, **state)
    step("check it, with our own command and with sha256sum")
    run(*spec, "bundle", "verify", bundle, "--key", folder / "key.pub", "--signature", "required", **state)
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=bundle, check=True)


def network() -> None:
    """Of this namespace: itself, and a way out that leads nowhere and is counted."""
    for words in (
        "sysctl -qw net.ipv6.conf.default.disable_ipv6=1",
        "ip link set lo up",
        f"ip link add {SINK} type veth peer name {SINK}-end",
        f"ip link set {SINK}-end up",
        f"ip address add 10.99.0.1/24 dev {SINK}",
        f"ip link set {SINK} up",
        f"ip route add default via {OUTSIDE} dev {SINK}",
        f"ip neighbour add {OUTSIDE} lladdr 02:00:00:00:00:02 dev {SINK} nud permanent",
    ):
        subprocess.run(words.split(), check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        before = sent()
        probe.sendto(b"?", ("192.0.2.1", 53))
        assert sent() == before + 1, "the sink does not count"


def sent() -> int:
    """Packets that tried to leave."""
    asked = subprocess.run(["ip", "-j", "-s", "link", "show", SINK], check=True, capture_output=True)
    return int(json.loads(asked.stdout)[0]["stats64"]["tx"]["packets"])


def receive(folder: Path) -> None:
    """In the namespaces: import, and serve from it. `folder` has the bundle and the sender's public key."""
    home, prefix, bundle = folder / "home", folder / "prefix", folder / "bundle"
    (folder / "resolv.conf").write_text(f"nameserver {OUTSIDE}\n")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("mount", "--bind", folder / "resolv.conf", Path("/etc/resolv.conf").resolve())
    network()
    begun = sent()
    home.mkdir()
    kept = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    os.environ.clear()
    os.environ.update(kept)
    engine = {
        "DOCKER_ENGINE_DATA": str(folder / "docker"),
        "DOCKER_ENGINE_RUN": "/run/other-side",
        "DOCKER_ENGINE_LOG": str(folder / "docker.log"),
    }
    spec = prefix / "bin" / "spark-spec"
    step("on the other side: install the launcher out of the bundle")
    run(sys.base_prefix + "/bin/python3", bundle / "install.py", "--prefix", prefix)
    run("bash", ENGINE, "start", **engine)
    try:
        step("import, killed on the way, and again")
        run(spec, "bundle", "trust", "add", folder / "key.pub")
        models = home / ".cache" / "spark-spec" / "models"
        take = (spec, "bundle", "import", bundle, "--signature", "required")
        killed(*take, when=lambda: any(models.rglob("*.import.incomplete")))
        run(*take)
        step("up, with verification")
        run(spec, "up", PRESET, "--runtime", "docker")
        run(spec, "ask", "--name", PRESET, "--max-tokens", "8", "Say yes.")
        run(spec, "down", PRESET)
    finally:
        run("bash", ENGINE, "stop", **engine)
    left = sent() - begun
    step(f"packets that tried to leave, DNS and containers included: {left}")
    assert left == 0, "something asked the network"


def main() -> None:
    if sys.argv[1:2] == ["receive"]:
        receive(Path(sys.argv[2]))
        return
    folder = Path(tempfile.mkdtemp(prefix="spark-spec-bundle-demo-"))
    try:
        send(folder)
        print("$ unshare --net --mount (the other side)", flush=True)
        subprocess.run(
            ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-m", "tests.bundle_demo",
             "receive", str(folder)],
            check=True, cwd=ROOT, timeout=1800,
        )  # fmt: skip
        step("done: the demo served from a bundle, and nothing asked the network")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
