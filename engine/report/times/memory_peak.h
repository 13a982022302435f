/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by class at the moment of a step when most memory is live. Computed from the plan alone; needs no
 * device. */
#ifndef ENGINE_REPORT_TIMES_MEMORY_PEAK_H
#define ENGINE_REPORT_TIMES_MEMORY_PEAK_H

#include "engine/plan/plan.h"

typedef enum clt_peak_class {
    CLT_PEAK_PARAMETERS,
    CLT_PEAK_GRADIENTS, /* gradients of parameters */
    CLT_PEAK_OPTIMIZER,
    CLT_PEAK_STATE, /* schedule, parameter groups, and everything else in the store */
    CLT_PEAK_INPUTS,
    CLT_PEAK_STAGING,     /* staging ring for uploads */
    CLT_PEAK_SAVED,       /* activations of the forward pass that the backward pass reads */
    CLT_PEAK_ACTIVATIONS, /* other activations */
    CLT_PEAK_ACTIVATION_GRADIENTS,
    CLT_PEAK_WORKSPACE,
    CLT_PEAK_CLASS_COUNT
} clt_peak_class;
const char *clt_peak_class_name(clt_peak_class c);

#define CLT_PEAK_TENSORS 10
typedef struct clt_peak_tensor {
    int32_t tensor;
    clt_peak_class cls;
    uint64_t bytes;
} clt_peak_tensor;

typedef struct clt_memory_peak {
    uint64_t bytes[CLT_PEAK_CLASS_COUNT], live; /* live: the sum of all classes */
    uint64_t allocated;                         /* bytes that the plan allocates, with gaps and alignment */
    clt_phase phase;
    const char *command; /* the first command at that time; borrowed from the plan */
    int n_tensors;
    /* the largest tensors in the plan's slabs, in descending order */
    clt_peak_tensor tensor[CLT_PEAK_TENSORS];
} clt_memory_peak;
clt_status clt_memory_peak_find(const clt_plan *plan, clt_memory_peak *out);

clt_status clt_memory_peak_text(const clt_plan *plan, const clt_memory_peak *peak, clt_str *out);
void clt_memory_peak_json(const clt_plan *plan, const clt_memory_peak *peak, clt_json_writer *writer);

#endif
