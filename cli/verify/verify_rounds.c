/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs rounds of the checker within a budget of time, and computes which intermittent faults they would have
 * found. */
#include "cli/verify/verify_rounds.h"

#include <math.h>
#include <string.h>

#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"

double verify_detectable_rate(uint64_t runs)
{
    return runs > 0 ? 1.0 - pow(0.05, 1.0 / (double)runs) : 1.0;
}

/* Counts over all rounds of a device. */
typedef struct rounds_tally {
    uint64_t runs;               /* number of runs of all checks that were not skipped */
    uint64_t least, most;        /* fewest and most runs of one check */
    int checks, failed, skipped; /* checks: those that were not skipped */
} rounds_tally;

static rounds_tally tally_of(const verify_report *report)
{
    rounds_tally t = {.least = UINT64_MAX};
    for (size_t i = 0; i < report->count; i++) {
        const verify_item *item = &report->items[i];
        if (item->run != (int)report->n_devices)
            continue;
        t.skipped += item->state == CLT_VERIFY_SKIP;
        if (item->state == CLT_VERIFY_SKIP)
            continue;
        t.checks++;
        t.failed += verify_is_failure(item->state);
        t.runs += item->runs;
        t.least = item->runs < t.least ? item->runs : t.least;
        t.most = item->runs > t.most ? item->runs : t.most;
    }
    return t;
}

/* Prints the number of runs, and what the lack of failures proves: a fault that affects all checks alike
 * could occur in every run, a fault of one kernel only in the runs of that kernel's checks. */
static void tell(const rounds_tally *t, uint64_t rounds, double seconds, uint64_t missing)
{
    if (t->checks == 0)
        return;
    terminal_say(
        "up to %llu round%s in %.0f s: %d check%s, each made %llu to %llu times with fresh data, %llu in "
        "all\n",
        (unsigned long long)rounds, CLT_PLURAL(rounds), seconds, t->checks, CLT_PLURAL(t->checks),
        (unsigned long long)t->least, (unsigned long long)t->most, (unsigned long long)t->runs);
    if (missing > 0)
        terminal_say("the time was up before %llu check%s %s made once: give more --seconds, or select "
                     "fewer checks\n",
                     (unsigned long long)missing, CLT_PLURAL(missing), missing == 1 ? "was" : "were");
    double rate = verify_detectable_rate(t->runs), own = verify_detectable_rate(t->least);
    terminal_say("with a probability of 95 %% these rounds would have found a fault that spoils any one "
                 "check in %.0f, or a single check in at least %.1f %% of its runs\n",
                 1.0 / rate, 100.0 * own);
}

clt_status verify_rounds(double seconds, double limit, int jobs, clt_verify_options *options,
                         verify_report *report, clt_verify_summary *summary)
{
    double began = clt_now();
    uint64_t matched;
    CLT_TRY(clt_verify_count(options, &matched));
    options->until = began + seconds;
    clt_status status = clt_verify_run_workers(options, limit, jobs, summary);
    rounds_tally t = tally_of(report);
    uint64_t made = (uint64_t)(t.checks + t.skipped);
    tell(&t, report->rounds, clt_now() - began, matched > made ? matched - made : 0);
    if (status != CLT_ECHECK)
        return status;
    clt_error_clear();
    CLT_FAIL(CLT_ECHECK, "verify: %d of %d check%s failed in %llu round%s (seeds %llu to %llu)", t.failed,
             t.checks, CLT_PLURAL(t.checks), (unsigned long long)report->rounds, CLT_PLURAL(report->rounds),
             (unsigned long long)options->seed, (unsigned long long)(options->seed + report->rounds - 1));
}
