/* SPDX-License-Identifier: Apache-2.0
 *
 * The line of advice at the end of a run whose device was idle: it says which config key to change, and why.
 * A pure function of measured numbers. */
#ifndef ENGINE_REPORT_TIMES_ADVICE_H
#define ENGINE_REPORT_TIMES_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Means per step, except where stated otherwise. */
typedef struct clt_advice_facts {
    int64_t steps;                                    /* number of measured steps */
    double step_ms;                                   /* time of a step on the device's clock */
    double idle_input_ms, idle_comm_ms, idle_host_ms; /* idle times of the compute queue by clt_idle_kind */
    double data_ms;                                   /* time that the main thread waited for the loader */
    /* time that one loader thread needs for a micro-batch */
    double load_ms;
    int workers, prefetch, cpus; /* cpus: available to this rank */
    int64_t micro_batch, global_batch;
    /* planning has shown that twice data.micro_batch does not fit into the device's memory */
    bool double_misfits;
    int32_t accumulation, ranks;
    size_t commands; /* commands of a step */
    bool counted;    /* the idle times are derived from the driver's figure of the device's use */
} clt_advice_facts;

typedef enum clt_advice_kind {
    CLT_ADVICE_NONE,        /* the device was hardly idle, or too little was measured */
    CLT_ADVICE_WORKERS,     /* raise data.workers: loading is slower than the device */
    CLT_ADVICE_PREFETCH,    /* raise data.prefetch: too few slots for the threads, or uneven loading times */
    CLT_ADVICE_DATA,        /* loading is slower than the device, and more threads would not help */
    CLT_ADVICE_MICRO_BATCH, /* raise data.micro_batch: more work per command */
    CLT_ADVICE_ACCUMULATE   /* raise data.global_batch: more micro-batches per update and sum over ranks */
} clt_advice_kind;

#define CLT_ADVICE_IDLE 0.1       /* least idle fraction of the step for which there is advice */
#define CLT_ADVICE_USED 0.7       /* utilization from which on there is no advice */
#define CLT_ADVICE_STEPS 10       /* least number of measured steps */
#define CLT_ADVICE_TOTAL_MS 500.0 /* least idle time of the whole run */

/* For a device without time stamps: fills in the idle times from the share of the time in which its driver
 * counts it as used, and from the time that the step waited for other ranks. From CLT_ADVICE_USED on the
 * device counts as busy. */
void clt_advice_count(clt_advice_facts *facts, double utilization, double comm_ms);
/* True if every rank computes the same, even number of micro-batches: then half as many micro-batches of
 * twice the size make the same batch. */
bool clt_advice_halves(const clt_advice_facts *facts);
/* Writes the line of advice; "" for NONE. */
clt_advice_kind clt_advice(const clt_advice_facts *facts, char *text, size_t size);

#endif
