/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes what a run costs from a price for each hour of a machine and the wall time of the sessions. The
 * trainer writes sums into its events and lines (docs/cloud.md), and the readers take the newest sums, so
 * that a resumed run continues from them. Money is in the user's currency, whose label is all that is
 * known. */
#ifndef ENGINE_REPORT_READ_RUN_COST_H
#define ENGINE_REPORT_READ_RUN_COST_H

#include <stdint.h>

#include "engine/config/config.h"
#include "engine/json/json.h"

/* The variable of the environment that has the price of a machine for an hour. */
#define CLT_PRICE_VARIABLE "CLTRAIN_PRICE_PER_HOUR"
#define CLT_CURRENCY_TEXT 24
#define CLT_MONEY_TEXT 64

/* The price that the newest session pays, and the work that it does for it. */
typedef struct clt_cost_terms {
    double per_hour;  /* price of one machine; 0: unknown, and there is no cost */
    double on_demand; /* price of such a machine on demand, per hour; 0: unknown */
    int64_t machines; /* hosts that have ranks */
    char currency[CLT_CURRENCY_TEXT];
    int64_t step_tokens, step_samples; /* work of one step; step_tokens 0: the data is not text */
    double epoch_steps;                /* steps of one pass over the training data; 0: unknown */
} clt_cost_terms;

/* Sums over all sessions. seconds is the wall time, from where each program begins with the training (after
 * MPI has started its ranks); the other times are the parts of it that trained nothing: until the first step,
 * steps that were computed again after a resume, and steps that waited for a checkpoint. */
typedef struct clt_cost_sums {
    double total, lost; /* money in all; money for the time that trained nothing */
    double seconds, startup_s, repeated_s, saving_s;
    double energy_j; /* energy of the devices of all ranks, in J; known without a price, too; 0: unknown */
} clt_cost_sums;

/* For each kind of work at the end of a run, the longest time in seconds that a session has needed; 0: none
 * has done it yet. A budget keeps these times in reserve. */
typedef struct clt_cost_longest {
    double save_s, upload_s; /* times of saving and of uploading a checkpoint */
    double evaluation_s;
} clt_cost_longest;

typedef struct clt_cost {
    clt_cost_terms terms;
    clt_cost_sums sums;
    clt_cost_longest longest;
    int64_t paid_steps; /* steps that sessions with a price have made; a repeated step counts once */
    int64_t last_paid;  /* the last of them */
} clt_cost;

/* The price of a machine for an hour, by the config or else the environment; 0: there is none. CLT_ECONFIG:
 * the variable is not such a number. */
clt_status clt_cost_price(const clt_config *config, double *out);
/* Money that all machines cost in a second. */
double clt_cost_rate(const clt_cost_terms *terms);
/* Share of the wall time that trained; NAN without time. */
double clt_cost_goodput(const clt_cost_sums *sums);
/* Money for `units` units of work if each step does `per_step`; NAN if nothing is done or known. */
double clt_cost_of(const clt_cost *cost, double units, double per_step);

/* Seconds between checkpoints at which the least time is lost, if a checkpoint takes `save_s` seconds in
 * which steps stand still and interruptions come every `apart_s` seconds (Young 1974); NAN if one is
 * unknown. */
double clt_cost_interval(double save_s, double apart_s);

/* Adds time of a session to which the terms apply: all of its time, and the parts that trained nothing. */
void clt_cost_add(clt_cost *cost, double seconds, double startup_s, double saving_s);
/* Adds sessions that ended in their start-up, which took `seconds` in all and cost `total`. */
void clt_cost_cut(clt_cost *cost, double seconds, double total);
/* Notes that steps are computed again, whose `seconds` are in the sums already. */
void clt_cost_repeat(clt_cost *cost, double seconds);

/* Reading: the member "cost" of an event, if it has one; the member "cost" of a step's line, NAN if it has
 * none. Numbers that no run would write are ignored. */
void clt_cost_take_event(clt_cost *cost, const clt_json_doc *event);
void clt_cost_take_step(clt_cost *cost, int64_t step, double told);
/* The member "energy_j" of a step's line. */
void clt_cost_take_energy(clt_cost *cost, double told);
/* Reads what the sessions in a metrics.jsonl have cost; the lines of steps after step `kept` are about to be
 * removed, since a resumed run computes these steps again. All zero if the file says nothing of it. */
clt_status clt_cost_read(const char *metrics_path, int64_t kept, clt_cost *out);

/* "12.34 USD", "0.0123"; returns text. */
const char *clt_money_text(double money, const char *currency, char text[CLT_MONEY_TEXT]);

#endif
