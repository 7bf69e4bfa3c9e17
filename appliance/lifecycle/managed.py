"""A stack of this machine: its folder, the release meant to run, and what the runtime sees of it."""

import time
from dataclasses import dataclass
from typing import Any

from appliance import engines
from appliance.catalog.stack import RuntimeName
from appliance.client.client import Client, Timeouts
from appliance.client.errors import NotReachable
from appliance.core.errors import ConfigFault, MachineFault, SparkSpecError, UsageFault
from appliance.core.talk import Talk
from appliance.health.state import Health, classify
from appliance.health.wait import SHOWN_LINES, wait_ready
from appliance.machine.docker import probe_docker
from appliance.runtime.base import ABSENT, Observed, Runtime
from appliance.runtime.choose import runtime
from appliance.stack.release import Release, StackFolder, stack_names
from appliance.stack.resolve import MachineSettings
from appliance.supervise.status import Counters

KNOCK_MOST_S = 0.5


@dataclass(frozen=True)
class Managed:
    """One stack, with the talk to tell a person what is done to it."""

    folder: StackFolder
    talk: Talk

    def current(self) -> Release | None:
        """The release meant to run; None where the stack is down. Raises ConfigFault where it cannot be read."""
        return self.folder.current() if self.folder.exists() else None

    def runtime(self, name: RuntimeName) -> Runtime:
        return runtime(name, self.folder, self.talk)

    def observe(self) -> Observed:
        """What is there. It needs the state file only: a release may have been damaged or removed meanwhile."""
        name = self.folder.state().runtime
        return self.runtime(name).observe() if name else ABSENT

    def health(self) -> Health:
        return classify(self.observe(), time.time())

    def counters(self) -> Counters | None:
        """The supervisor's last reading; None where it cannot be had."""
        try:
            seen = self.observe().status
        except MachineFault:
            return None
        return seen.counters if seen else None

    def start(self, release: Release) -> None:
        """Start a release; from here on it is the one meant to run. Raises ConfigFault for one that was edited."""
        if not release.intact():
            raise ConfigFault(
                f"release {release.number:04d} of {self.folder.name} is not as it was published",
                f"a file in {release.folder} was changed",
                f"make a new one: spark-spec up {release.manifest['stack']['preset']}",
            )
        self.folder.remember_current(release)
        self.talk.say(f"starting release {release.number:04d} ({release.runtime})")
        self.runtime(release.runtime).start(release.folder, release.digest)

    def stop(self) -> bool:
        """Stop whatever of this stack runs. False where nothing did.

        Where the state file is damaged, both runtimes are looked at; the file is then written anew.
        """
        try:
            names: tuple[RuntimeName, ...] = tuple(filter(None, [self.folder.state().runtime]))
        except ConfigFault as error:
            self.talk.say(f"{error.what} ({error.why}): looking for what runs")
            names = ("process", "docker") if probe_docker().state == "ok" else ("process",)
        stopped = [name for name in names if self._stop(name)]
        if names:
            self.folder.remember_current(None)
        return self._sweep() or bool(stopped)

    def _stop(self, name: RuntimeName) -> bool:
        if not self.folder.folder.exists():
            return False
        if self.runtime(name).observe().alive:
            self.talk.say(f"stopping {self.folder.name} ({name})")
        return self.runtime(name).stop()

    def abandon(self) -> None:
        """Give up a release on a Docker that does not answer; its container goes when Docker is back."""
        self.folder.remember_left_on_docker(True)
        self.folder.remember_current(None)

    def _sweep(self) -> bool:
        """Remove a container that was left on Docker, if Docker is back."""
        if not (self.folder.exists() and self.folder.state().left_on_docker):
            return False
        try:
            swept = self.runtime("docker").stop()
        except MachineFault as error:
            self.talk.say(f"a container is still left on Docker ({error.why})")
            return False
        self.folder.remember_left_on_docker(False)
        return swept

    def audit(self, event: str, **facts: Any) -> None:
        """Record an event; a log that cannot be written is said, and stops nothing."""
        try:
            self.folder.audit(event, **facts)
        except OSError as error:
            self.talk.say(f"warning: not recorded in {self.folder.folder / 'audit.jsonl'}: {error}")

    def wait(self, release: Release) -> Observed:
        """Wait until it is ready; raises EngineDied or NoProgress."""
        health = release.manifest["stack"]["health"]
        runs = self.runtime(release.runtime)
        with (
            client(release, Timeouts(first_token_s=float(health["wedge_s"]))) as asking,
            client(release, Timeouts(connect_s=KNOCK_MOST_S, silence_s=KNOCK_MOST_S)) as knocking,
        ):
            return wait_ready(
                runs.observe,
                lambda: hears(knocking, asking),
                lambda: answers(asking),
                lambda: list(runs.logs(follow=False, lines=SHOWN_LINES)),
                engines.get(release.manifest["engine"]["name"]).deaths,
                stall_s=float(health["stall_s"]),
                wedge_s=float(health["wedge_s"]),
                say=lambda seen: self.talk.phase(seen.phase or seen.state),
            )


def running(stack: Managed) -> Release:
    """The release that is meant to run. Raises UsageFault where the stack is down."""
    release = stack.current()
    if release is None:
        raise UsageFault(
            f"the stack {stack.folder.name} is down",
            "there is no endpoint",
            "bring it up: spark-spec up PRESET",
        )
    return release


def client(release: Release, timeouts: Timeouts | None = None) -> Client:
    """A client of a release's endpoint."""
    name = str(release.manifest["stack"]["serve"]["name"])
    return Client(f"http://127.0.0.1:{release.port}", name, timeouts=timeouts)


def answers(asking: Client) -> bool:
    """Whether one token comes back through chat. An endpoint that is not there yet is no answer."""
    try:
        answer = asking.chat(
            [{"role": "user", "content": "Say yes."}], max_tokens=1, temperature=0.0, stream=False
        )
    except NotReachable:
        return False
    return bool(answer.text or answer.reasoning or answer.completion_tokens)


def hears(knocking: Client, asking: Client) -> bool:
    """Whether an endpoint that may not be there yet, or not be well, gives a token. `knocking` is the impatient
    client: where it meets nobody, nothing more is asked."""
    try:
        knocking.models()
        return answers(asking)
    except SparkSpecError:
        return False


def find(settings: MachineSettings, name: str | None, talk: Talk) -> Managed:
    """A known stack by name; without one, the only stack there is. Raises UsageFault."""
    state = settings.paths.state
    known = stack_names(state)
    if name is None:
        up = (
            known
            if len(known) == 1
            else [one for one in known if _is_up(Managed(StackFolder(state, one), talk))]
        )
        if len(up) != 1:
            raise UsageFault(
                "which stack?" if up else "no stack is up" if known else "there is no stack here",
                f"up are: {', '.join(up)}" if up else f"known are: {', '.join(known) or 'none'}",
                "name one" if up else "start one: spark-spec up demo",
            )
        name = up[0]
    if name not in known:
        raise UsageFault(
            f"there is no stack {name!r}",
            f"known are: {', '.join(known) or 'none'}",
            "`spark-spec status` lists them; `spark-spec up` starts one",
        )
    return Managed(StackFolder(state, name), talk)


def _is_up(stack: Managed) -> bool:
    """Whether it is meant to run; one whose state cannot be read may well."""
    try:
        return stack.folder.state().runtime is not None
    except ConfigFault:
        return True
