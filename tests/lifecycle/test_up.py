"""`up`: from nothing to ready, again, over another, and back where it fails."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from appliance.core.errors import ConfigFault, EngineDied, MachineFault, NoProgress, UsageFault
from appliance.lifecycle import change
from appliance.lifecycle import up as up_module
from appliance.lifecycle.managed import find
from appliance.machine.ports import is_free
from appliance.stack.resolve import resolve_machine
from appliance.supervise.status import start_ticks
from tests.lifecycle.conftest import Bench


def pids(bench: Bench, name: str = "demo") -> set[int]:
    where = bench.stack(name).observe().where
    return {int(where["pid"]), int(where["engine_pid"])}


def gone(numbers: set[int]) -> bool:
    return all(start_ticks(pid) is None for pid in numbers)


def test_up_ends_when_a_token_came_and_names_its_processes(bench: Bench) -> None:
    outcome = bench.up("--load-lines", "3", "--load-every", "0.4", "--while-loading", "503")
    assert not outcome.adopted
    assert bench.stack().health().state == "ready"
    assert any(line.startswith("loading weights") for line in bench.talk.lines)
    assert bench.stack().folder.state().good == (1,)
    assert all(start_ticks(pid) for pid in pids(bench))


def test_up_again_adopts_what_runs(bench: Bench) -> None:
    bench.up()
    before = pids(bench)
    assert bench.up().adopted
    assert pids(bench) == before
    assert len(bench.stack().folder.releases()) == 1


def test_changed_settings_make_a_new_release_that_takes_the_old_one_s_place(bench: Bench) -> None:
    bench.up()
    before = pids(bench)
    outcome = bench.up(sets=("draft.k=2",))
    assert (outcome.release.number, outcome.adopted) == (2, False)
    assert gone(before)


def test_an_engine_that_dies_at_once_is_reported_with_its_last_lines_and_leaves_nothing(bench: Bench) -> None:
    """Case 26."""
    with pytest.raises(EngineDied) as caught:
        bench.up("--die-after", "0.2", "--load-silent", "5", "--die-message", "boom", "--die-code", "3")
    assert "boom" in caught.value.fix
    assert bench.stack().health().state == "absent"
    assert is_free(bench.port)


def test_a_known_death_comes_with_its_cause_and_remedy(bench: Bench) -> None:
    with pytest.raises(EngineDied) as caught:
        bench.up("--die-after", "0.2", "--load-silent", "5", "--die-message", "fatal: out of cheese")
    assert caught.value.why == "there is no cheese left"
    assert caught.value.fix.startswith("buy some cheese")


def test_health_200_without_tokens_is_not_ready(bench: Bench) -> None:
    """Case 27."""
    with pytest.raises(NoProgress) as caught:
        bench.up("--mute-after", "0", sets=("health.wedge_s=0.5",))
    assert caught.value.code == 7
    assert bench.stack().health().state == "absent"


def test_a_load_that_stands_still_is_no_progress(bench: Bench) -> None:
    with pytest.raises(NoProgress):
        bench.up("--load-silent", "30", sets=("health.stall_s=0.5",))


def test_a_failed_up_puts_the_last_good_release_back(bench: Bench) -> None:
    bench.up()
    with pytest.raises(EngineDied):
        bench.up("--die-after", "0.2", "--load-silent", "5")
    assert bench.stack().health().state == "ready"
    current = bench.stack().current()
    assert current is not None
    assert current.number == 1
    assert "putting release 0001 back" in bench.talk.lines


def test_an_interrupted_up_leaves_nothing_behind(bench: Bench) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("loading weights"):
            raise KeyboardInterrupt

    bench.talk.on_line = interrupt
    with pytest.raises(KeyboardInterrupt):
        bench.up("--load-lines", "50", "--load-every", "0.1")
    assert bench.stack().health().state == "absent"
    assert is_free(bench.port)


def test_a_foreign_holder_of_the_port_is_named_before_anything_is_fetched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 9."""
    monkeypatch.setattr(up_module, "fetch", lambda *_: pytest.fail("it fetched"))
    with socket.create_server(("127.0.0.1", bench.port)), pytest.raises(MachineFault) as caught:
        bench.up()
    assert str(bench.port) in caught.value.what
    assert (
        f"process {os.getpid()} ({sys.executable}" in caught.value.why or str(os.getpid()) in caught.value.why
    )
    assert not bench.stack().folder.exists()


def test_another_stack_on_the_port_is_refused_and_swapped_with_replace(bench: Bench) -> None:
    bench.up(name="one")
    with pytest.raises(MachineFault) as caught:
        bench.up(name="two")
    assert "the stack one" in caught.value.why
    assert "--replace" in caught.value.fix
    before = pids(bench, "one")
    bench.up(name="two", replace=True)
    assert gone(before)
    assert bench.stack("two").health().state == "ready"
    assert bench.stack("one").health().state == "absent"


def test_a_failed_swap_puts_the_other_stack_back(bench: Bench) -> None:
    bench.up(name="one")
    with pytest.raises(EngineDied):
        bench.up("--die-after", "0.2", "--load-silent", "5", name="two", replace=True)
    assert bench.stack("one").health().state == "ready"
    assert bench.stack("two").health().state == "absent"


def test_a_dead_stack_is_started_again_by_the_next_up(bench: Bench) -> None:
    """A killed supervisor takes its engine along."""
    bench.up()
    before = pids(bench)
    os.kill(int(bench.stack().observe().where["pid"]), signal.SIGKILL)
    outcome = bench.up()
    assert not outcome.adopted
    assert outcome.release.number == 1
    assert gone(before)


def test_a_crash_loop_stops_and_says_so(bench: Bench) -> None:
    """Case 28."""
    import time

    bench.up("--die-after-ready", "0.3", sets=("health.restarts=1",))
    deadline = time.monotonic() + 20
    while bench.stack().health().state != "exited" and time.monotonic() < deadline:
        time.sleep(0.1)
    health = bench.stack().health()
    assert health.state == "exited"
    status = bench.stack().observe().status
    assert status is not None
    assert status.starts == 2


def test_verify_runs_at_the_end_and_counts(bench: Bench) -> None:
    outcome = bench.up("--accepted", "2", verify=True, sets=("offers.json=false",))
    assert outcome.report is not None
    assert outcome.report.ok


def test_rollback_goes_to_the_good_release_before(bench: Bench) -> None:
    bench.up()
    bench.up(sets=("draft.k=2",))
    release, _ = change.rollback(bench.stack())
    assert release.number == 1
    assert bench.stack().health().state == "ready"
    release, _ = change.rollback(bench.stack())
    assert release.number == 2


def test_rollback_without_another_good_release_is_refused(bench: Bench) -> None:
    bench.up()
    with pytest.raises(UsageFault, match="nothing to roll back to"):
        change.rollback(bench.stack())
    assert bench.stack().health().state == "ready"


def test_restart_starts_a_new_life_of_the_same_release(bench: Bench) -> None:
    bench.up()
    before = pids(bench)
    release, _ = change.restart(bench.stack())
    assert release.number == 1
    assert gone(before)
    assert bench.stack().health().state == "ready"


def test_down_stops_and_says_when_there_was_nothing(bench: Bench) -> None:
    bench.up()
    before = pids(bench)
    assert change.down(bench.stack())
    assert gone(before)
    assert is_free(bench.port)
    assert not change.down(bench.stack())


def test_down_leaves_a_process_that_only_has_the_same_pid(bench: Bench) -> None:
    import json
    import subprocess

    release = bench.up().release
    change.down(bench.stack())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        bench.stack().folder.remember_current(release)
        record = {"pid": other.pid, "start": 1, "digest": "x", "folder": "/"}
        (bench.stack().folder.run / "process.json").write_text(json.dumps(record))
        change.down(bench.stack())
        assert other.poll() is None
        other.kill()


def test_the_only_stack_needs_no_name_and_an_unknown_one_is_refused(bench: Bench) -> None:
    settings = resolve_machine([f"paths.state={bench.folder}"], {})
    with pytest.raises(UsageFault, match="no stack"):
        find(settings, None, bench.talk)
    bench.up(name="one")
    assert find(settings, None, bench.talk).folder.name == "one"
    with pytest.raises(UsageFault, match="no stack 'two'"):
        find(settings, "two", bench.talk)


def test_no_secret_of_the_user_reaches_the_engine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 3: neither its environment nor its log has it."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    bench.up("--say-env", "HF_TOKEN")
    for pid in pids(bench):
        assert b"hf_secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert "hf_secret" not in (bench.stack().folder.run / "engine.log").read_text()


def test_a_failed_rollback_puts_back_what_ran(bench: Bench) -> None:
    bench.up()
    bench.up(sets=("draft.k=2",))
    plan = bench.stack().folder.release(1).folder / "engine" / "supervise.json"
    plan.write_text(plan.read_text().replace("--k", "--nonsense"))
    with pytest.raises(ConfigFault, match="not as it was published"):
        change.rollback(bench.stack())
    current = bench.stack().current()
    assert current is not None
    assert (current.number, bench.stack().health().state) == (2, "ready")


def test_rollback_looks_at_the_port_before_it_stops_anything(bench: Bench) -> None:
    other_port = bench.port
    bench.up()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bench.port = probe.getsockname()[1]
    bench.up()
    before = pids(bench)
    with socket.create_server(("127.0.0.1", other_port)), pytest.raises(MachineFault, match="is taken"):
        change.rollback(bench.stack())
    assert pids(bench) == before


def test_an_edited_release_is_neither_adopted_nor_started(bench: Bench) -> None:
    outcome = bench.up()
    (outcome.release.folder / "engine" / "supervise.json").write_text("{}")
    with pytest.raises(ConfigFault, match="not as it was published"):
        change.restart(bench.stack())
    again = bench.up()
    assert (again.adopted, again.release.number) == (False, 2)


def test_a_users_own_stack_is_never_taken_for_a_baseline(bench: Bench) -> None:
    for name in ("demo-nospec", "demo-baseline"):
        bench.up(name=name)
        change.down(bench.stack(name))
    bench.up(name="demo")
    change.down(bench.stack("demo"))
    assert all(bench.stack(name).folder.releases() for name in ("demo-nospec", "demo-baseline"))


@pytest.mark.parametrize("damage", ["", "{}", "[]", "null", "a folder"])
def test_a_damaged_record_is_made_good_by_the_supervisor_s_status(bench: Bench, damage: str) -> None:
    bench.up()
    before = pids(bench)
    record = bench.stack().folder.run / "process.json"
    record.unlink()
    if damage == "a folder":
        record.mkdir()
    else:
        record.write_text(damage)
    assert change.down(bench.stack())
    assert gone(before)
    assert is_free(bench.port)


@pytest.mark.parametrize("damage", ["", "{", "{}", "[1]", "null"])
def test_a_damaged_status_of_a_dead_supervisor_stops_nobody(bench: Bench, damage: str) -> None:
    bench.up()
    os.kill(int(bench.stack().observe().where["pid"]), signal.SIGKILL)
    (bench.stack().folder.run / "status.json").write_text(damage)
    bench.up()
    assert bench.stack().health().state == "ready"


def test_a_stack_whose_release_was_removed_can_be_taken_down_and_brought_up(bench: Bench) -> None:
    import shutil

    outcome = bench.up()
    before = pids(bench)
    shutil.rmtree(outcome.release.folder)
    assert bench.stack().health().state == "ready"
    bench.up()
    assert gone(before)
    shutil.rmtree(bench.stack().folder.folder / "releases")
    assert change.down(bench.stack())
    assert is_free(bench.port)


@pytest.mark.parametrize(
    "damage", ["", "{}", '{"schema": 1, "current": "x", "runtime": "process", "good": []}']
)
def test_a_damaged_state_file_is_made_good_by_down(bench: Bench, damage: str) -> None:
    bench.up()
    before = pids(bench)
    (bench.stack().folder.folder / "state.json").write_text(damage)
    assert change.down(bench.stack())
    assert gone(before)
    bench.up()


def test_an_audit_log_that_cannot_be_written_is_said_and_stops_nothing(bench: Bench) -> None:
    bench.up()
    audit = bench.stack().folder.folder / "audit.jsonl"
    audit.unlink()
    audit.mkdir()
    bench.up(sets=("draft.k=2",))
    assert bench.stack().health().state == "ready"
    assert any("not recorded" in line for line in bench.talk.lines)
    assert change.down(bench.stack())


def test_a_second_interrupt_does_not_lose_what_ran(bench: Bench) -> None:
    bench.up()

    def interrupt(line: str) -> None:
        if line.startswith("loading weights"):
            bench.talk.on_line = again
            raise KeyboardInterrupt

    def again(line: str) -> None:
        if line.startswith(("stopping", "putting release", "starting release")):
            os.kill(os.getpid(), signal.SIGINT)

    bench.talk.on_line = interrupt
    with pytest.raises(KeyboardInterrupt):
        bench.up("--load-lines", "50", "--load-every", "0.1")
    bench.talk.on_line = len
    bench.up()
    current = bench.stack().current()
    assert current is not None
    assert (current.number, bench.stack().health().state) == (1, "ready")
