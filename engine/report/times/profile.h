/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile: times of a step's commands on the device compared with the device's limits, idle times of the
 * compute queue, and what the host did. It adds up spans that others have recorded and measures nothing
 * itself, so that tests can pass in any numbers. */
#ifndef ENGINE_REPORT_TIMES_PROFILE_H
#define ENGINE_REPORT_TIMES_PROFILE_H

#include "cl/measure/limits.h"
#include "engine/json/json.h"
#include "engine/report/times/step_times.h"

#define CLT_PROFILE_SHAPE 64

/* A command of the plan, or a kind of transfer that is not in the plan. */
typedef struct clt_profile_entry {
    const char *phase, *label, *kernel, *variant; /* borrowed from the plan */
    char shape[CLT_PROFILE_SHAPE]; /* "256x2304<256x768,768x2304": tensor written < tensors read */
    bool on_device; /* limited by arithmetic and memory of the device, not by the link to the host */
    uint64_t calls;
    double ns, flops, bytes; /* sums over all calls */
    double idle_ns;          /* idle time of the queue right before the command */
    const char *layer; /* names of the layers that the command works for, "fc1+act1"; NULL or "": none */
} clt_profile_entry;

typedef struct clt_profile {
    const clt_plan *plan;
    clt_profile_entry *entries; /* the plan's commands in their order, then the transfers */
    size_t n_entries, n_commands;
    size_t first[CLT_PHASE_COUNT];
    int64_t steps;
    double step_ns, busy_ns, idle_ns[CLT_IDLE_COUNT]; /* sums over the steps */
    double h2d_ns, h2d_bytes, d2h_ns, d2h_bytes;
    uint64_t lost; /* spans for which there was no room */
    /* CPU time of the main thread per step, within and outside of OpenCL calls */
    bool host_known;
    double host_inside_ms, host_outside_ms, host_calls;
    bool have_limits;
    ocl_limits limits;
} clt_profile;

clt_status clt_profile_create(const clt_plan *plan, clt_profile **out);
void clt_profile_destroy(clt_profile *profile);
CLT_SCOPED_POINTER(clt_profile, clt_profile_destroy)
/* command: the entry of command `index`, which counts the commands of all phases in their order. transfer:
 * the entry of a kind of transfer. */
clt_profile_entry *clt_profile_command(clt_profile *profile, size_t index);
clt_profile_entry *clt_profile_transfer(clt_profile *profile, ocl_span_kind kind);
void clt_profile_add_span(clt_profile_entry *entry, const ocl_span *span, double idle_ns);
void clt_profile_add_step(clt_profile *profile, const clt_step_times *times);

/* Roofline: the least time in which a device with these limits can move `bytes` and do `flops`, as a
 * percentage of the time taken: max(flops/peak, bytes/stream)/time. This is the reached share of the usual
 * bound min(peak, intensity*stream). *memory: the bytes decide. NAN without limits, work or time. */
double clt_roofline_percent(const ocl_limits *limits, double flops, double bytes, double ns, bool *memory);

/* All commands with the same kernel, variant, shape and amount of work; the longest are first. The caller
 * frees the rows. */
typedef struct clt_profile_row {
    const clt_profile_entry *first; /* the row's first entry, which gives its names */
    size_t commands, layers;        /* layers: number of different layers */
    uint64_t calls;
    double ns, flops, bytes, idle_ns;
} clt_profile_row;
clt_status clt_profile_group(const clt_profile *profile, clt_profile_row **rows, size_t *count);

/* "fc1+act1", or "fc1+act1 and 3 more"; "" if it belongs to no layer. Returns buffer. */
const char *clt_profile_layers(const clt_profile_row *row, char *buffer, size_t size);

/* The profile in three lines: the kernels that take most of the time, what the device did, and what to
 * change. advice: the line of clt_advice, or "". CLT_ENOMEM. */
#define CLT_SUMMARY_LINES 3
#define CLT_SUMMARY_SIZE 640
clt_status clt_profile_summary(const clt_profile *profile, const char *advice,
                               char lines[CLT_SUMMARY_LINES][CLT_SUMMARY_SIZE]);

/* The profile as tables, and as a JSON object with "kernels", "commands", "phases", "idle", "host", "memory",
 * "limits". */
clt_status clt_profile_text(const clt_profile *profile, clt_str *out);
clt_status clt_profile_json(const clt_profile *profile, clt_json_writer *writer);

#endif
