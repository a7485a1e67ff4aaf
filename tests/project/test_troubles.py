"""What `why` says about pipelines that have not failed: the most likely cause comes first."""

from __future__ import annotations

from headrace.model.findings import Finding
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.project import troubles

NOW = 10_000.0
LATE = "p99 is 3 min; target 60 s"


def found(*queries: QueryStatus, state: str = "running", why: str = "1 query") -> list[str]:
    status = PipelineStatus("shop", state, why, queries=queries)
    return [trouble.slug for trouble in troubles.find(status, NOW)]


def query(name: str = "out", state: str = "running", **facts: object) -> QueryStatus:
    return QueryStatus(name, state, **facts)  # type: ignore[arg-type]


def finding(slug: str, severity: str = "problem") -> Finding:
    return Finding(slug, f"{slug}.", "cause", "fix", severity, query="out")


def test_a_healthy_pipeline_has_none() -> None:
    assert found(query(data_available=True, newest_at=NOW - 5)) == []


def test_what_delays_a_late_query_comes_before_the_missed_target_and_the_rest_after() -> None:
    findings = (
        finding("late-rows"),
        finding("falling-behind", "warning"),
        finding("field-null"),
        finding("unbounded-state", "warning"),
    )

    late = query(broken_promise=LATE, findings=findings)

    expected = ["falling-behind", "late-rows", "field-null", "freshness", "unbounded-state"]
    assert found(late) == expected


def test_without_a_late_query_problems_come_before_warnings_in_the_order_of_health() -> None:
    findings = (finding("falling-behind", "warning"), finding("late-rows"), finding("field-null"))

    assert found(query(findings=findings)) == ["late-rows", "field-null", "falling-behind"]


def test_a_source_that_does_not_answer_explains_a_stalled_pipeline() -> None:
    stalled = query(
        state="stalled", findings=(finding("state-grows"), finding("source-unanswered"))
    )

    assert found(stalled, state="stalled") == ["source-unanswered", "state-grows"]


def test_a_stall_without_an_explanation_says_what_usually_is_the_cause() -> None:
    status = PipelineStatus("shop", "stalled", "out has not finished a batch for 9 min",
                            queries=(query(state="stalled"),))  # fmt: skip

    (trouble,) = troubles.find(status, NOW)

    assert trouble.what == "out has not finished a batch for 9 min"
    assert "thread dump" in str(trouble.headrace)
    assert "headrace logs shop" in str(trouble.fix)


def test_a_late_query_names_its_backlog_as_the_cause() -> None:
    late = query(state="catching-up", broken_promise=LATE, message="5,000 rows behind")

    backlog, missed = troubles.find(PipelineStatus("shop", "catching-up", "", queries=(late,)), NOW)

    assert (backlog.slug, backlog.what) == ("catching-up", "5,000 rows behind")
    assert missed.cause == "The query is working through a backlog."


def test_a_silent_query_says_since_when_no_row_has_arrived() -> None:
    quiet = query(data_available=False, trigger_active=False, newest_at=NOW - 7200)

    (trouble,) = troubles.find(PipelineStatus("shop", "running", "", queries=(quiet,)), NOW)

    assert (trouble.slug, trouble.severity) == ("no-new-rows", "note")
    assert trouble.what == "no new rows for 2 h."
    assert trouble.since == NOW - 7200


def test_a_query_is_not_silent_while_its_source_does_not_answer() -> None:
    quiet = query(data_available=False, newest_at=1.0, findings=(finding("source-unanswered"),))

    assert found(quiet, state="stalled") == ["source-unanswered"]


def test_of_several_queries_each_has_its_own_cause() -> None:
    status = PipelineStatus(
        "shop", "degraded", "",
        queries=(
            query("slow", broken_promise=LATE),
            query("out", broken_promise=LATE, findings=(finding("watermark-held"),)),
        ),
    )  # fmt: skip

    causes = {t.query: t.cause for t in troubles.find(status, NOW) if t.slug == "freshness"}

    assert "above" in str(causes["out"])
    assert "too long" in str(causes["slow"])
