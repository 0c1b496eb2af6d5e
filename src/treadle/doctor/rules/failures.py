"""Job types that fail unusually often: more than they used to, or nearly always."""

import shlex
from collections.abc import Mapping, Sequence
from math import sqrt

from treadle.doctor.facts import FailureRate
from treadle.doctor.finding import Context, Finding, Severity, highest, ok
from treadle.doctor.text import lines, literal
from treadle.words.formatting import span

# The share that is reported if there is nothing to compare with, and the one that is reported whatever it was before.
MOST_FAIL, NEARLY_ALL_FAIL = 0.5, 0.9
# With fewer attempts, a share says little.
LEAST_ATTEMPTS, LEAST_ERRORS, LEAST_PAST = 20, 10, 50
# So many standard deviations above the past share are not chance.
DEVIATIONS = 4
# By so much, in addition: with very many attempts, any difference is significant.
LEAST_RISE = 0.05


def check_failure_rates(context: Context, rates: Sequence[FailureRate], muted: Mapping[str, int]) -> list[Finding]:
    counted = without_muted(rates, muted)
    bad = [(severity, each) for each in counted if (severity := failure_severity(each)) is not Severity.OK]
    if not bad:
        return [ok("failure_rates", "No job type fails unusually often.")]
    bad.sort(key=lambda each: (-each[0].rank, -each[1].share))
    recent, past = (span(seconds) for seconds in (context.limits.recent_failures, context.limits.past_failures))
    return [
        Finding(
            "failure_rates",
            highest(*(severity for severity, _ in bad)),
            f"Job types fail unusually often, in the last {recent}.",
            lines([described(each, past) for _, each in bad]),
            f"Look at their errors: treadle jobs --status failed --type {shlex.quote(bad[0][1].job_type)}\n"
            "Then undo what changed, such as a deployment, or mend the service that they call. To keep jobs from using "
            f"up their attempts meanwhile: select {context.schema}.pause(p_job_type => {literal(bad[0][1].job_type)});",
        )
    ]


def without_muted(rates: Sequence[FailureRate], muted: Mapping[str, int]) -> list[FailureRate]:
    """The recent failures without those of groups that an operator has muted."""
    return [each._replace(errors=max(0, each.errors - muted.get(each.job_type, 0))) for each in rates]


def failure_severity(rate: FailureRate) -> Severity:
    if rate.attempts < LEAST_ATTEMPTS or rate.errors < LEAST_ERRORS:
        return Severity.OK
    if rate.past_attempts < LEAST_PAST:
        # It is new, or has just been deployed: there is nothing to compare with.
        return Severity.WARNING if rate.share >= MOST_FAIL else Severity.OK
    # As if one more attempt had failed: a type that never failed may fail once in a while.
    usual = (rate.past_errors + 1) / (rate.past_attempts + 1)
    deviation = sqrt(usual * (1 - usual) * (1 / rate.attempts + 1 / rate.past_attempts)) if usual < 1 else 0.0
    rise = rate.share - usual
    # Twice as many fail, or half as many succeed.
    doubled = rate.share >= 2 * usual or 1 - rate.share <= (1 - usual) / 2
    if doubled and rise >= max(LEAST_RISE, DEVIATIONS * deviation):
        return Severity.WARNING
    # It has failed for long. Somebody may know; then they can mute its errors.
    return Severity.NOTE if rate.share >= NEARLY_ALL_FAIL else Severity.OK


def described(rate: FailureRate, past: str) -> str:
    now = f"{rate.job_type}: {rate.share:.0%} of {rate.attempts:,} attempts failed"
    if rate.past_attempts < LEAST_PAST:
        return f"{now}; there are too few earlier attempts to compare with"
    return f"{now}, before that {percent(rate.past_share)} of {rate.past_attempts:,} (in {past})"


def percent(share: float) -> str:
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"
