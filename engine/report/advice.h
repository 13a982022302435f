/* SPDX-License-Identifier: Apache-2.0
 *
 * The one line of advice at the end of a run whose device idled: which key to change, and why. A pure
 * function of measured numbers. */
#ifndef ENGINE_REPORT_ADVICE_H
#define ENGINE_REPORT_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Means per step unless they say otherwise. */
typedef struct clt_advice_facts {
    int64_t steps;                                    /* that were measured */
    double step_ms;                                   /* on the device's clock */
    double idle_input_ms, idle_comm_ms, idle_host_ms; /* the compute queue had no work; see step_times.h */
    double data_ms;                                   /* the main thread waited for the loader */
    double load_ms;                                   /* one loader thread takes for one micro-batch */
    int workers, prefetch, cpus;                      /* cpus: for this rank */
    int64_t micro_batch, global_batch;
    bool double_misfits; /* known: twice data.micro_batch does not fit in the device's memory */
    int32_t accumulation, ranks;
    size_t commands; /* of a step */
} clt_advice_facts;

typedef enum clt_advice_kind {
    CLT_ADVICE_NONE,        /* the device hardly idled, or too little was measured */
    CLT_ADVICE_WORKERS,     /* data.workers: loading is slower than the device */
    CLT_ADVICE_PREFETCH,    /* data.prefetch: too few slots for the threads, or loading is fast but uneven */
    CLT_ADVICE_DATA,        /* loading is slower and more threads would not help */
    CLT_ADVICE_MICRO_BATCH, /* data.micro_batch: more work per command */
    CLT_ADVICE_ACCUMULATE   /* data.global_batch: more micro-batches between two sums over ranks or updates */
} clt_advice_kind;

#define CLT_ADVICE_IDLE 0.1       /* share of the step from which on it is noticeable */
#define CLT_ADVICE_STEPS 10       /* fewer say nothing */
#define CLT_ADVICE_TOTAL_MS 500.0 /* lost in the whole run; less is not worth a line of advice */

/* Writes the line, "" for NONE. */
clt_advice_kind clt_advice(const clt_advice_facts *facts, char *text, size_t size);

#endif
