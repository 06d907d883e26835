import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from callgate.errors import Reason
from callgate.telemetry.metrics import Metrics

NAMES = {
    "callgate_calls_total": ("server", "verdict", "reason"),
    "callgate_call_seconds": ("server",),
    "callgate_gate_seconds": (),
    "callgate_in_flight": (),
    "callgate_sessions": ("server", "transport"),
    "callgate_upstream_errors_total": ("server", "reason"),
    "callgate_http_requests_total": ("method", "status"),
    "callgate_audit_pending": (),
    "callgate_audit_append_failures_total": (),
    "callgate_audit_lost_total": (),
    "callgate_audit_tampered": (),
    "callgate_audit_cosigned_size": (),
    "callgate_audit_unseen_seconds": (),
    "callgate_witness_failing": ("witness",),
    "callgate_process_starts_total": ("server",),
    "callgate_tool_changes_total": ("server", "what"),
    "callgate_trust_alerts_total": ("server", "what"),
    "callgate_agent_requests_total": ("source",),
    "callgate_agent_refusals_total": ("reason",),
    "callgate_tools_waiting": ("server",),
    "callgate_kill_switch": (),
    "callgate_build_info": ("version", "python"),
}


def samples(metrics):
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_metrics_are_these_with_these_labels():
    families = Metrics().families()
    assert {family.name: tuple(family.labels) for family in families} == NAMES
    assert all(family.description.endswith(".") for family in families)


def test_counters_and_gauges_are_rendered():
    metrics = Metrics(["files"])
    metrics.calls.at("files", "refuse", Reason.BLOCKED_BY_POLICY).inc()
    metrics.calls.at("files", "refuse", "blocked_by_policy").inc(2)
    metrics.in_flight.at().inc()
    metrics.in_flight.at().inc()
    metrics.in_flight.at().dec()
    metrics.kill_switch.at().set(1)
    metrics.http_requests.at("POST", "200").inc()
    found = samples(metrics)
    labels = (("reason", "blocked_by_policy"), ("server", "files"), ("verdict", "refuse"))
    assert found["callgate_calls_total", labels] == 3
    assert found["callgate_in_flight", ()] == 1
    assert found["callgate_kill_switch", ()] == 1
    assert found["callgate_http_requests_total", (("method", "POST"), ("status", "200"))] == 1


def test_metrics_without_labels_are_there_from_the_start():
    found = samples(Metrics())
    for name in ("callgate_in_flight", "callgate_audit_pending", "callgate_audit_append_failures_total"):
        assert found[name, ()] == 0


def test_a_histogram_counts_up_to_each_bound():
    metrics = Metrics(["files"])
    series = metrics.call_seconds.at("files")
    for value in (0.0005, 0.001, 0.002, 1000.0):
        series.observe(value)
    found = samples(metrics)

    def below(bound):
        return found["callgate_call_seconds_bucket", (("le", bound), ("server", "files"))]

    assert (below("0.001"), below("0.0025"), below("300.0"), below("+Inf")) == (2, 3, 3, 4)
    assert found["callgate_call_seconds_count", (("server", "files"),)] == 4
    assert found["callgate_call_seconds_sum", (("server", "files"),)] == pytest.approx(1000.0035)


def test_the_series_of_a_set_of_labels_is_always_the_same():
    metrics = Metrics(["files"])
    assert metrics.calls.at("files", "pass", "none") is metrics.calls.at("files", "pass", "none")


def test_no_peer_can_make_the_number_of_series_grow():
    metrics = Metrics(["files"])
    for number in range(1000):
        metrics.calls.at(f"made-up-{number}", f"v{number}", f"r{number}").inc()
        metrics.http_requests.at(f"METHOD{number}", str(1000 + number)).inc()
        metrics.sessions.at("files", f'x"}}\n{number}').inc()
    found = samples(metrics)
    assert found["callgate_calls_total", (("reason", "other"), ("server", "other"), ("verdict", "other"))] == 1000
    assert found["callgate_http_requests_total", (("method", "other"), ("status", "other"))] == 1000
    assert found["callgate_sessions", (("server", "files"), ("transport", "other"))] == 1000
    assert len(list(metrics.calls.items())) == 1


def test_servers_of_a_new_configuration_are_counted_by_name():
    metrics = Metrics(["files"])
    metrics.process_starts.at("web").inc()
    metrics.know(["web"])
    metrics.process_starts.at("web").inc()
    found = samples(metrics)
    assert found["callgate_process_starts_total", (("server", "web"),)] == 1
    assert found["callgate_process_starts_total", (("server", "other"),)] == 1


def test_the_wrong_number_of_labels_is_an_error():
    with pytest.raises(TypeError, match="server, verdict, reason"):
        Metrics().calls.at("files")


def test_two_gateways_in_one_process_do_not_share_anything():
    one, two = Metrics(["a"]), Metrics(["a"])
    one.calls.at("a", "pass", "none").inc()
    assert ("callgate_calls_total", (("reason", "none"), ("server", "a"), ("verdict", "pass"))) not in samples(two)
    assert "callgate_in_flight" not in {metric.name for metric in REGISTRY.collect()}
