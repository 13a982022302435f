/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides what to do after a step: stop, save, or end with an error. Ranks must decide the same at the same
 * step, although they learn of signals, of a STOP file and of the clock at different times. So each of them
 * says what it knows in the first sum of a step (sync.h), and all of them act on that sum CLT_HEARD_LAG
 * steps later, when it has arrived everywhere. A single rank acts immediately. */
#include "engine/base/thread.h"
#include "engine/train/loop/trainer_loop.h"

/* Indices of the words. The sum of a word over the ranks is the number of ranks that say so; for SAY_ENERGY
 * it is the energy that their devices have taken in this session, in J. */
enum {
    SAY_SAVE,
    SAY_THROUGH,
    SAY_STOP_FILE,
    SAY_NOTICE,
    SAY_WORDS, /* a notice whose words rank 0 does not know */
    SAY_NEAR,
    SAY_ENERGY,
    SAY_SIGNAL
}; /* SAY_SIGNAL + the signal's number */
#define MOST_SIGNAL (CLT_SYNC_WORDS - SAY_SIGNAL - 1)

static bool time_to_save(const clt_loop *l)
{
    double minutes = clt_config_float(l->options->config, "checkpoint.minutes");
    return l->save_asked || (l->dir && minutes > 0 && clt_now() - l->saved_at >= 60 * minutes);
}

/* Why this rank wants to stop: CLT_STOP_NONE, CLT_STOP_FILE, CLT_STOP_NOTICE or the number of a signal. */
static int64_t asked_to_stop(const clt_loop *l)
{
    int64_t asked = l->options->stop ? atomic_load(l->options->stop) : CLT_STOP_NONE;
    if (!asked && clt_notices_stop(l->notices))
        asked = CLT_STOP_NOTICE;
    return !asked && l->dir && clt_rundir_take_stop(l->dir) ? CLT_STOP_FILE : asked;
}

clt_status clt_stop_before(clt_loop *l, bool *stop)
{
    int64_t asked[2] = {asked_to_stop(l), clt_meter_near(l)};
    if (l->run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(l->options->comm, asked, 2, COMM_I64, COMM_MAX));
    l->stop = asked[0];
    l->near_budget = asked[1];
    *stop = asked[0] != CLT_STOP_NONE;
    return *stop || !l->near_budget ? CLT_OK
                                    : clt_meter_stops(l, l->run->first_step, l->keeper.state.owes, stop);
}

void clt_send_requests(clt_loop *l)
{
    float words[CLT_SYNC_WORDS] = {0};
    if (l->run->ranks.ranks == 1)
        return;
    int64_t asked = l->own_stop = l->own_stop ? l->own_stop : asked_to_stop(l);
    clt_look_for_notices(l); /* first, so that a notice's words are sent together with its request */
    words[SAY_SAVE] = time_to_save(l);
    words[SAY_THROUGH] = clt_keeper_waits(&l->keeper);
    words[SAY_WORDS] = l->unshared_notice.kind != CLT_NOTICE_NONE;
    words[SAY_NEAR] = clt_meter_near(l);
    words[SAY_ENERGY] = (float)clt_gauges_energy(l);
    if (asked == CLT_STOP_FILE)
        words[SAY_STOP_FILE] = 1;
    else if (asked == CLT_STOP_NOTICE)
        words[SAY_NOTICE] = 1;
    else if (asked)
        words[SAY_SIGNAL + (asked < MOST_SIGNAL ? asked : MOST_SIGNAL)] = 1;
    clt_sync_say(l->run->sync, words);
}

int clt_decision_lag(const clt_loop *l)
{
    return l->run->ranks.ranks > 1 ? CLT_HEARD_LAG : 0;
}

int64_t clt_decision_needs(const clt_loop *l, int64_t steps)
{
    return l->run->ranks.ranks > 1 ? steps - CLT_HEARD_LAG : 0;
}

/* The decision that follows from what all ranks said in a step whose results have arrived. */
static clt_decision heard_in(clt_loop *l, int64_t step)
{
    const float *words = l->heard[step % CLT_HEARD_STEPS].heard;
    for (int64_t number = 1; number <= MOST_SIGNAL; number++)
        if (words[SAY_SIGNAL + number] > 0)
            l->stop = number;
    if (words[SAY_STOP_FILE] > 0)
        l->stop = CLT_STOP_FILE;
    if (words[SAY_NOTICE] > 0)
        l->stop = CLT_STOP_NOTICE;
    l->near_budget = words[SAY_NEAR] > 0;
    l->gauges.heard_energy = (double)words[SAY_ENERGY];
    /* words from before the newest checkpoint's start, or the end of a round of it, were acted on already */
    bool all = (int)words[SAY_THROUGH] == l->run->ranks.ranks;
    return (clt_decision){.stop = l->stop != CLT_STOP_NONE,
                          .save = words[SAY_SAVE] > 0 && step >= l->saved_step,
                          .words = words[SAY_WORDS] > 0 && step >= l->words_shared_step,
                          .meet = all && step >= l->saved_step && step >= l->met_step};
}

clt_decision clt_decide(clt_loop *l, int64_t step)
{
    clt_decision d = {0};
    int64_t heard = step - clt_decision_lag(l);
    if (l->run->ranks.ranks == 1) {
        l->stop = asked_to_stop(l);
        l->near_budget = clt_meter_near(l);
        d = (clt_decision){.stop = l->stop != CLT_STOP_NONE, .save = time_to_save(l)};
    } else if (heard >= l->run->first_step) {
        d = heard_in(l, heard);
    }
    d.fail = l->failed && l->bad.step <= heard;
    if (d.fail)
        l->stop = CLT_STOP_FAILED;
    d.stop = d.stop || d.fail;
    return d;
}
