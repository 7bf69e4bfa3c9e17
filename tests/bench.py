"""`make bench`: what the launcher costs, as ratios and differences within one run. Judged by a person.

The goals are those the project holds itself to; a noisy machine may miss one, so nothing fails here.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from appliance.client.client import Client
from appliance.lifecycle.managed import answers
from appliance.machine.docker import probe_docker
from tests import bench_models

SPEC = [sys.executable, "-m", "appliance"]
SCRIPT = [str(Path(sys.executable).parent / "spark-spec")]
PAIRS, STARTS, ANSWERS = 15, 7, 8
PROMPT = [{"role": "user", "content": "Tell a long story about a lighthouse keeper and the sea."}]


def seconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def quietly(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def report(what: str, figure: str, goal: str) -> None:
    print(f"{what:<66} {figure:>12}   goal {goal}", flush=True)


def help_ratio() -> None:
    ours, click = [], []
    for _ in range(PAIRS):  # interleaved: both see the same noise
        ours.append(seconds(lambda: quietly(*SCRIPT, "--help")))
        click.append(seconds(lambda: quietly(sys.executable, "-c", "import click")))
    ratio = statistics.median(ours) / statistics.median(click)
    report("spark-spec --help against python -c 'import click'", f"{ratio:.2f}", "<= 1.5")


def peak_memory(*words: str) -> int:
    """Peak resident bytes of the launcher's own process, its children not counted."""
    peak = 0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None:
            try:
                status = Path(f"/proc/{child.pid}/status").read_text()
            except OSError:
                break
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
            time.sleep(0.005)
    return peak


def first_token(port: int, model: str) -> None:
    with Client(f"http://127.0.0.1:{port}", model) as client:
        while not answers(client):
            time.sleep(0.02)


def up_cost(runtime: str) -> None:
    """What `up --no-verify` adds to `docker compose up` of the same file, until the first token."""
    up = [*SPEC, "up", "demo", "--runtime", runtime, "--no-verify", "--json"]
    told = json.loads(subprocess.run(up, check=True, capture_output=True, text=True).stdout)
    port, model = int(told["endpoint"].split(":")[2].split("/")[0]), told["model"]
    state = Path(json.loads(subprocess.run([*SPEC, "show", "demo", "--json"], check=True, capture_output=True,
                 text=True).stdout)["settings"]["paths.state"]["value"])  # fmt: skip
    compose = state / "stacks" / "demo" / "releases" / f"{told['release']:04d}" / "compose.yaml"
    quietly(*SPEC, "down", "demo")
    ours, plain = [], []
    for _ in range(STARTS):
        ours.append(seconds(lambda: quietly(*up)))
        quietly(*SPEC, "down", "demo")
        plain.append(seconds(lambda: (quietly("docker", "compose", "-f", str(compose), "up", "--detach"),
                                      first_token(port, model))))  # fmt: skip
        quietly("docker", "compose", "-f", str(compose), "down")
    added = statistics.median(
        one - other for one, other in zip(ours, plain, strict=True)
    )  # neighbours in time
    report("up --no-verify adds to docker compose up, until the first token", f"{added:.2f} s", "<= 0.5 s")
    print(
        f"{'':<4}(medians of {STARTS}: {statistics.median(ours):.2f} s against {statistics.median(plain):.2f} s)"
    )


def rates(endpoint: str) -> tuple[float, float]:
    """tok/s of one streamed answer: by our clock, and by the engine's (llama.cpp's `timings`)."""
    body = {"messages": PROMPT, "max_tokens": 200, "temperature": 0, "stream": True}
    request = urllib.request.Request(f"{endpoint}/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})  # fmt: skip
    first = last = 0.0
    timings: dict[str, float] = {}
    with urllib.request.urlopen(request, timeout=120) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            timings = event.get("timings") or timings
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                last = time.perf_counter()
                first = first or last
    return (timings["predicted_n"] - 1) / (last - first), timings["predicted_per_second"]


def port_cost() -> None:
    """tok/s seen through the published port against the engine's own count of the same answers."""
    told = json.loads(
        subprocess.run([*SPEC, "up", "demo", "--json"], check=True, capture_output=True, text=True).stdout
    )
    ratios = [seen / counted for seen, counted in (rates(told["endpoint"]) for _ in range(ANSWERS))]
    report(f"tok/s through the port against the engine's own ({told['runtime']})", f"{statistics.median(ratios):.3f}",
           ">= 0.97")  # fmt: skip


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    docker = probe_docker()
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith(("model name", "CPU part"))), "unknown processor")  # fmt: skip
    print(
        f"{platform.machine()}, {model}, {os.cpu_count()} cores, docker {docker.server_version or docker.state}"
    )
    help_ratio()
    bench_models.measure(report)
    peak = peak_memory(*SPEC, "up", "demo")
    report("memory of the launcher during up", f"{peak / 1e6:.0f} MB", "< 80 MB")
    port_cost()
    quietly(*SPEC, "down", "demo")
    if docker.state == "ok":
        up_cost("docker")
    else:
        print(f"not measured: up against docker compose ({docker.detail})")


if __name__ == "__main__":
    main()
